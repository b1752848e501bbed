"""Compresses the files of a wheel anew, and as far as the format of such archives allows: pack.py WHEEL

The result is an ordinary archive (deflate), which takes a minute to make and no longer to read. The names, times, permissions
and order of the files stay.
"""

import os
import sys
import zipfile

import zopfli.zlib


class Compressor:
    """What `zipfile` asks for one file."""

    def __init__(self):
        self.parts = []

    def compress(self, part):
        self.parts.append(part)
        return b""

    def flush(self):
        # Without the two bytes before the data and the four after them, which an archive has in its own way.
        return zopfli.zlib.compress(b"".join(self.parts))[2:-4]


def main(path):
    """Replaces the wheel by a smaller one with the same files."""
    smaller = path + ".smaller"
    level_of_zlib = zipfile._get_compressor
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(smaller, "w") as made:
        # `zipfile` knows its own compressors only, and has no way to add data that are compressed already.
        zipfile._get_compressor = lambda *_: Compressor()
        for file in given.infolist():
            made.writestr(file, given.read(file), zipfile.ZIP_DEFLATED)
        zipfile._get_compressor = level_of_zlib
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(smaller) as made:
        for file in given.infolist():
            if made.read(file.filename) != given.read(file):
                sys.exit(f"{file.filename} does not come out of {smaller} as it went in")
    os.replace(smaller, path)


main(sys.argv[1])
