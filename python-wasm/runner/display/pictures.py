"""Compresses PNG files drawn by Agg with less effort.

Pillow tries five filters for every row and compresses at level 6, which is two fifths of the time
of a plot. Plots are flat colours and thin lines: unfiltered rows, compressed at level 1, take about
as many bytes. The rest of the file is written by Pillow, with everything that the caller requested.
If the caller sets a compression, that is used.
"""

from zlib import compressobj as _compressor

_LEVEL = 1
_BLOCK = 1 << 20  # bytes that are compressed at once
_PLAIN = (False, -1, -1, b"")  # Pillow's settings of its encoder where the caller made none


class _State:
    __slots__ = ("is_plot",)

    def __init__(self):
        self.is_plot = False


_STATE = _State()


def of_plot(save, *args, **kwargs):
    """Call `save`; a PNG file that it writes contains a plot."""
    before = _STATE.is_plot
    _STATE.is_plot = True
    try:
        return save(*args, **kwargs)
    finally:
        _STATE.is_plot = before


def patch(module):
    """For `PIL.ImageFile`: the function that writes image data, in PNG the chunks `IDAT`."""
    usual = module._save

    def save(image, file, tiles, *args):
        if _STATE.is_plot and image.mode == "RGBA" and len(tiles) == 1:
            kind, box, offset, order = tiles[0]
            plain = getattr(image, "encoderconfig", None) == _PLAIN and order == "RGBA"
            if kind == "zip" and plain and not offset and box == (0, 0, *image.size):
                for data in compressed(image.tobytes(), 4 * image.width):
                    file.write(data)
                return
        usual(image, file, tiles, *args)

    module._save = save


def compressed(pixels, width):
    """The compressed rows, each `width` bytes long and without a filter, in parts."""
    compressor = _compressor(_LEVEL)
    view = memoryview(pixels)
    rows = max(_BLOCK // width, 1)
    for start in range(0, len(view), rows * width):
        block = view[start : start + rows * width]
        lines = [b"", *(block[at : at + width] for at in range(0, len(block), width))]
        data = compressor.compress(b"\0".join(lines))
        if data:
            yield data
    yield compressor.flush()
