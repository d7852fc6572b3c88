"""The layout of the published ExtremeWeather files: one HDF5 file a year, fields as `images`, rectangles as `boxes`.

Source: Racah et al., "ExtremeWeather: A large-scale climate dataset", NIPS 2017 (arXiv:1612.02095), and its files.
Data set `images`: float32[frames, 16, 768, 1152], raw values, north or south first as in the climate model;
`boxes`: int32[frames, 15, 5], rows [ymin, xmin, ymax, xmax, class] in pixels, unused rows are -1.
"""

CHANNELS = (
    "PRECT",  # total precipitation rate, m/s
    "PS",  # surface pressure, Pa
    "PSL",  # sea level pressure, Pa
    "QREFHT",  # humidity at reference height, kg/kg
    "T200",  # temperature at 200 hPa, K
    "T500",  # temperature at 500 hPa, K
    "TMQ",  # total vertically integrated water, kg/m2
    "TREFHT",  # temperature at reference height, K
    "TS",  # surface temperature, K
    "U850",  # zonal wind at 850 hPa, m/s
    "UBOT",  # zonal wind of the lowest level, m/s
    "V850",  # meridional wind at 850 hPa, m/s
    "VBOT",  # meridional wind of the lowest level, m/s
    "Z1000",  # height of 1000 hPa, m
    "Z200",  # height of 200 hPa, m
    "ZBOT",  # height of the lowest level, m
)
PRECT, PS, PSL, QREFHT, T200, T500, TMQ, TREFHT, TS, U850, UBOT, V850, VBOT, Z1000, Z200, ZBOT = range(16)
CLASSES = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
TROPICAL_DEPRESSION, TROPICAL_CYCLONE, EXTRATROPICAL_CYCLONE, ATMOSPHERIC_RIVER = range(4)
EASIEST = (TROPICAL_CYCLONE, EXTRATROPICAL_CYCLONE)  # to distinguish: tall and warm, wide and cold
HEIGHT, WIDTH = 768, 1152
BOXES = 15  # rows a frame
UNUSED = -1
TARGET = 0.35  # mAP at an overlap of 0.5 (HPC AI500)
FRAMES = 1460  # of a year, one every six hours; some files have 1456
IMAGES, RECTANGLES = "images", "boxes"


def file_name(year: int) -> str:
    """File name of a year."""
    return f"climo_{year:04d}.h5"


def names(classes: int) -> tuple[str, ...]:
    """Names of the detector's classes, in order: all four, or the two that are easiest to distinguish."""
    return tuple(CLASSES[number] for number in EASIEST) if classes == len(EASIEST) else CLASSES
