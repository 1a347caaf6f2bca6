import numpy as np

t = np.linspace(0, 1, 2_048, endpoint=False)
signal = np.sin(2 * np.pi * 50 * t) + 0.5 * np.sin(2 * np.pi * 120 * t)
spectrum = np.abs(np.fft.rfft(signal))
print(np.argsort(spectrum)[-2:], np.fft.irfft(np.fft.rfft(signal)).round(6)[1], spectrum.max().round(3))
kernel = np.ones(16) / 16
smooth = np.convolve(signal, kernel, "same")
windows = np.lib.stride_tricks.sliding_window_view(signal, 32)
print(smooth.std().round(6), windows.max(axis=1).mean().round(6), np.gradient(smooth)[:3].round(6))
print(np.interp([0.1, 0.25], t, smooth).round(5), np.trapezoid(smooth**2, t).round(6), np.diff(signal).max().round(5))
