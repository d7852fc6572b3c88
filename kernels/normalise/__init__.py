"""Pictures as bytes become fp32 with the channels last: value * scale + shift, scale and shift by channel."""
