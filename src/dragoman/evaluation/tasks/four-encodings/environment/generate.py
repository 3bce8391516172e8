"""Makes files with line ends, encodings and ends that editors like to change."""

from pathlib import Path

Path("windows.ini").write_bytes(b"[server]\r\nport = 8080\r\nhost = localhost\r\n\r\n[log]\r\nlevel = info\r\n")
Path("no-newline.txt").write_bytes(b"alpha\nbeta\ngamma")
Path("latin1.txt").write_bytes("Gr\u00fc\u00dfe aus K\u00f6ln\nPreis: 10 EUR\nCaf\u00e9\n".encode("latin-1"))
Path("rules.mk").write_bytes(b"all: build\n\nbuild:\n\tcc -O1 main.c   \n\techo done\n")
