"""Two sites with three hosts each, who shares what lies between them, and traffic at large beside it."""

HOSTS = ("1", "2", "3")
CLASSES = {"cms": 5, "atlas": 3, "rubin": 2}
# How far the ocean may be filled.
HIGH_WATER = 0.8
_DELAY_MS = 25
_ACCESS_MS = 1

_SITES = """\
name = "loop"
hosts = ["w1", "w2", "w3", "e1", "e2", "e3", "campus-w", "campus-e", "noc"]
routers = ["west", "east"]

[[link]]
name = "ocean"
ends = ["west", "east"]
rate = "{ocean}"
delay = "{delay} ms"
mtu = 9000
queue = "100 ms"
high_water = 0.8

# What agents say to their controller goes beside what is measured.

[[link]]
name = "control"
ends = ["west", "east"]
rate = "20 Mb/s"
delay = "{delay} ms"
mtu = 9000
cost = 1000

[[link]]
name = "noc-east"
ends = ["noc", "east"]
mtu = 9000
"""
_SECOND = """
[[link]]
name = "second"
ends = ["west", "east"]
rate = "{ocean}"
delay = "{delay} ms"
mtu = 9000
cost = 20
queue = "100 ms"
high_water = 0.8
"""
_ACCESS = """
[[link]]
name = "{host}-{router}"
ends = ["{host}", "{router}"]
rate = "{rate}"
delay = "{delay} ms"
mtu = 9000
"""
_CONTROL = """
[[path]]
name = "control-{host}"
from = "{host}"
to = "noc"
links = ["{host}-west", "control", "noc-east"]
"""
_CROSSING = """
[[path]]
name = "{name}"
from = "w{n}"
to = "e{m}"
links = ["w{n}-west", "{link}", "e{m}-east"]
"""


def network(ocean_bps, access_bps, crossings=False):
    """The file of the network. With `crossings` there is a second ocean, and paths over each by name."""
    rate = {"ocean": _rate(ocean_bps), "delay": _DELAY_MS}
    text = _SITES.format(**rate) + (_SECOND.format(**rate) if crossings else "")
    for host in (*(f"w{n}" for n in HOSTS), *(f"e{n}" for n in HOSTS), "campus-w", "campus-e"):
        text += _ACCESS.format(host=host, router="west" if "w" in host else "east", delay=_ACCESS_MS,
                               rate=_rate(10 * ocean_bps if "campus" in host else access_bps))
    for n in HOSTS:
        text += _CONTROL.format(host=f"w{n}")
        for m in HOSTS if crossings else ():
            for link in ("ocean", "second"):
                text += _CROSSING.format(name=f"{link}-{n}-{m}", n=n, m=m, link=link)
    return text


def shares(mark_of=None, mark_bps=None):
    """The file of classes; one may have a mark of its own on the ocean."""
    text = ""
    for name, weight in CLASSES.items():
        text += f'[[class]]\nname = "{name}"\nweight = {weight}\n\n'
    if mark_of:
        text += f'[[mark]]\nname = "ceiling"\nclass = "{mark_of}"\nlinks = ["ocean"]\nrate = "{_rate(mark_bps)}"\n'
    return text


def _rate(bps):
    return f"{round(bps / 1e3)} kb/s"
