"""The weather between the storms: its spectrum, motion and balance, the same on every grid."""

import numpy as np
import pytest

from hpcai.data.weather import layout as channel
from hpcai.data.weather.background import Background, double
from hpcai.data.weather.random_waves import STEP, Waves
from hpcai.data.weather.vortices import profile
from hpcai.data.weather.zonal_means import DENSITY, SPIN


def plain_double(half: np.ndarray) -> np.ndarray:
    """Bilinear interpolation at the quarter points, columns periodic, rows repeated at the poles."""
    height, width = half.shape
    y = np.clip((np.arange(2 * height) - 0.5) / 2, 0, height - 1)
    x = (np.arange(2 * width) - 0.5) / 2
    low, left = np.floor(y).astype(int), np.floor(x).astype(int)
    high, right = np.minimum(low + 1, height - 1), left + 1
    b, a = (y - low)[:, None], x - left
    lower = (1 - a) * half[low][:, left % width] + a * half[low][:, right % width]
    upper = (1 - a) * half[high][:, left % width] + a * half[high][:, right % width]
    return (1 - b) * lower + b * upper


@pytest.mark.parametrize("shape", [(24, 36), (1, 2), (5, 7)])
def test_doubling_is_bilinear_and_periodic(shape):
    half = np.random.default_rng(1).normal(size=(3, *shape)).astype(np.float32)
    out = np.full((3, 2 * shape[0], 2 * shape[1]), np.nan, np.float32)
    double(half, out)
    assert np.allclose(out, [plain_double(field) for field in half], atol=1e-6)


def test_streamfunction_falls_with_the_fifth_power_of_the_wave_number():
    waves = Waves(256, 256, peak=4.0, flow=0.0, rossby=False)
    along = waves.meridional[None, :] * 0.8 * np.sqrt(0.5)  # in wave numbers around the parallel
    k = np.hypot(waves.zonal[:, None], along)
    power = np.abs([waves.draw(seed, 7) for seed in range(40)]) ** 2
    shells = [(12, 14), (28, 33)]
    density = [power.mean(0).T[(k >= low) & (k < high)].sum() / (high - low) for low, high in shells]
    slope = np.log(density[1] / density[0]) / np.log(30.5 / 13)
    assert -5.5 < slope < -4.5


def test_waves_have_variance_1_and_move_at_their_own_speed():
    waves = Waves(96, 144, peak=8.0, flow=10.0, rossby=True)
    fields = [waves.field(waves.draw(seed, 7), 0) for seed in range(30)]
    assert np.var(fields) == pytest.approx(1, abs=0.1)
    alone = np.zeros((len(waves.meridional), len(waves.zonal)), np.complex128)
    row, column = int(np.flatnonzero(waves.meridional == 0)[0]), 6
    alone[row, column] = 1
    steps = 5
    rolled = (
        waves.field(alone, steps)[3],
        waves.field(alone * np.exp(-1j * waves.frequency[row, column] * STEP * 5), 0)[3],
    )
    assert np.allclose(*rolled, atol=1e-4)
    k = 2 * np.pi * 7 / (2 * np.pi * 6.371e6 * np.cos(np.pi / 4))
    beta = SPIN / 6.371e6 * np.cos(np.pi / 4)
    assert waves.frequency[row, column] == pytest.approx(10 * k - beta * k / (k**2 + 1e-12))


def test_winds_and_pressure_follow_from_one_streamfunction():
    """Away from the equator the eddies of U850 and V850 are the geostrophic wind of those of PSL."""
    made = Background(3, 384, 576)
    field = made.at(1979, 10).astype(np.float64)
    eddies = field - field.mean(2, keepdims=True)
    latitude = made.climate.latitude
    rows = (abs(latitude) > 40) & (abs(latitude) < 55)
    step = np.radians(180 / len(latitude)) * 6.371e6
    east = -np.gradient(eddies[channel.PSL], step, axis=0) / (DENSITY * made.climate.coriolis[:, None])
    north = np.gradient(eddies[channel.PSL], step, axis=1) / (DENSITY * made.climate.coriolis[:, None])
    assert np.corrcoef(east[rows].ravel(), eddies[channel.U850][rows].ravel())[0, 1] > 0.9
    assert np.corrcoef(north[rows].ravel(), eddies[channel.V850][rows].ravel())[0, 1] > 0.9


def test_all_grids_have_the_same_weather():
    fine, coarse = Background(5, 192, 288).at(1980, 33), Background(5, 96, 144).at(1980, 33)
    averaged = fine.reshape(16, 48, 2, 72, 2).mean((2, 4))
    for name in ("PSL", "U850", "TMQ", "T200"):
        number = channel.CHANNELS.index(name)
        assert np.corrcoef(averaged[number].ravel(), coarse[number].ravel())[0, 1] > 0.98, name


@pytest.mark.parametrize(("b", "depth"), [(1.4, 3000.0), (0.0, 2500.0)])
def test_wind_balances_the_slope_of_the_pressure(b, depth):
    r, f, radius = np.linspace(2e4, 9e5, 400), 8e-5, 2e5
    found = np.array([profile(x, depth, radius, b, f) for x in r])
    drop, wind = found.T
    slope = -np.gradient(drop, r)
    balanced = np.sqrt((f * r / 2) ** 2 + r * slope / DENSITY) - f * r / 2
    assert np.allclose(wind[2:-2], balanced[2:-2], atol=0.05)
    assert (np.diff(drop) <= 0).all() and drop.max() <= depth
