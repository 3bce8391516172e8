from judge_kit import START, WORK, check, need, report

CHANGES = {
    "windows.ini": (b"port = 8080", b"port = 9090"),
    "no-newline.txt": (b"beta", b"BETA"),
    "latin1.txt": (b"10 EUR", b"12 EUR"),
    "rules.mk": (b"-O1", b"-O2"),
}
for name, (old, new) in CHANGES.items():

    @check(f"{name} differs in the wanted bytes only")
    def same(name=name, old=old, new=new):
        expected = (START / name).read_bytes().replace(old, new)
        found = (WORK / name).read_bytes()
        need(new in found, "the change is missing")
        need(found == expected, "other bytes differ")


report()
