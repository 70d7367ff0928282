"""Who is compared. A new peer is a file here and a line below."""

from .gridftp import GridFtp
from .iperf3 import Iperf3
from .rclone import RcloneHttp, RcloneSftp
from .rsync import RsyncDaemon, RsyncSsh
from .scp import Scp
from .xrootd import Xrootd

NAMES = ("iperf3", "rsync", "scp", "rclone", "xrootd", "globus-url-copy")


def stream_peers():
    return [Iperf3(), Iperf3(zero_copy=True)]


def memory_copy_peers():
    return [Scp(cipher=None), Scp()]


def copy_peers():
    return [RsyncDaemon(), RcloneHttp(), Xrootd(), GridFtp(), RsyncSsh(), Scp(), RcloneSftp()]
