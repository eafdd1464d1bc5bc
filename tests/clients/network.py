"""Hosts of their own for nodes: a network namespace each, joined by a relay that delays, loses and cuts what they send.

Each namespace has one TUN device, held by a process that passes packets on; so neither a bridge nor the kernel's traffic shaping is
needed. Names begin with `rubato-` and the number of this process, and nothing outside of the namespaces is touched. Standard library only.
"""

import ctypes
import fcntl
import heapq
import multiprocessing
import os
import random
import select
import shutil
import struct
import subprocess
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_BYTES_MAX = 65536
# Packets under way between all hosts; more are lost, as in any router.
PACKETS_UNDER_WAY_MAX = 20000


def why_not():
    """Why this machine cannot have hosts of their own; None if it can."""
    if not shutil.which("ip"):
        return "there is no `ip` (iproute2)"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    name = f"rubato-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"network namespaces may not be made: {made.stderr.strip()}"
    try:
        with Inside(name):
            os.close(tun())
    except OSError as refused:
        return f"TUN devices may not be made: {refused}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


class Inside:
    """This thread is in the network of a namespace until the block ends. What is opened there stays there."""

    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            self.enter(there)
        finally:
            os.close(there)

    def __exit__(self, *_):
        self.enter(self.before)
        os.close(self.before)

    def enter(self, descriptor):
        if self.libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def tun():
    """A TUN device `grid0` of the namespace that this thread is in."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", b"grid0", IFF_TUN | IFF_NO_PI))
    return descriptor


class Hosts:
    """So many hosts, with the addresses 10.77.0.1 and up, gone when the block ends."""

    def __init__(self, count):
        self.names = [f"rubato-{os.getpid()}-{host}" for host in range(count)]

    def __enter__(self):
        self.orders, theirs = multiprocessing.Pipe()
        try:
            devices = [self.make(host) for host in range(len(self.names))]
            self.relay = multiprocessing.get_context("fork").Process(target=relay, args=(devices, theirs), daemon=True)
            self.relay.start()
            for device in devices:
                os.close(device)
        except BaseException:
            self.unmake()
            raise
        return self

    def __exit__(self, *_):
        self.relay.kill()
        self.relay.join()
        self.unmake()

    def make(self, host):
        name = self.names[host]
        run("ip", "netns", "add", name)
        with Inside(name):
            device = tun()
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "grid0")
        run("ip", "-n", name, "link", "set", "grid0", "up")
        return device

    def unmake(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def inside(self, host):
        """A block in which this thread is on that host."""
        return Inside(self.names[host])

    def shape(self, delay_seconds, jitter_seconds, lost_share):
        """What becomes of each packet from now on."""
        self.order(("shape", delay_seconds, jitter_seconds, lost_share))

    def cut(self, pairs):
        """Between these pairs of hosts, and no others, nothing passes from now on."""
        self.order(("cut", {frozenset(pair) for pair in pairs}))

    def order(self, what):
        self.orders.send(what)
        if not self.orders.poll(10):
            raise OSError("the relay between the hosts does not answer")
        self.orders.recv()


def relay(devices, orders):
    """Passes packets on between devices, for ever."""
    delay, jitter, lost, cut = 0.0, 0.0, 0.0, set()
    # (when, number, device, packet): what leaves at the same time leaves in the order in which it came.
    under_way, number = [], 0
    chance = random.Random(1)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready = select.select([*devices, orders], [], [], wait)[0]
        now = time.monotonic()
        for source in ready:
            if source is orders:
                kind, *what = orders.recv()
                if kind == "shape":
                    delay, jitter, lost = what
                else:
                    (cut,) = what
                orders.send(kind)
                continue
            host = devices.index(source)
            for packet in packets(source):
                # IPv4 only: version 4, and the last byte of the destination is the host.
                if len(packet) < 20 or packet[0] >> 4 != 4 or not 1 <= packet[19] <= len(devices):
                    continue
                to = packet[19] - 1
                is_lost = frozenset((host, to)) in cut or chance.random() < lost or len(under_way) >= PACKETS_UNDER_WAY_MAX
                if not is_lost:
                    number += 1
                    heapq.heappush(under_way, (now + delay + jitter * chance.random(), number, devices[to], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(under_way)
            try:
                os.write(device, packet)
            except OSError:
                # The device's queue is full: lost, as anywhere.
                pass


def packets(device):
    """What has come, but not so much that others wait for long."""
    for _ in range(64):
        try:
            yield os.read(device, PACKET_BYTES_MAX)
        except BlockingIOError:
            return


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
