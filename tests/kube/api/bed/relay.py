"""A way to the API server that can be cut."""
import socket
import threading

from bed.cluster import SERVER
from bed.programs import add_address


class Relay:
    """Passes connections on to the API server, until it is cut; then there are none.

    `address`: where they seem to come from."""

    def __init__(self, port, address):
        add_address(address)
        self.at = ("127.0.0.1", port)
        self.address = address
        self.ends = []
        self.listening = None
        self.mend()

    def mend(self):
        self.listening = socket.create_server(self.at)
        threading.Thread(target=self.accept, args=(self.listening,), daemon=True).start()

    def cut(self):
        for end in [self.listening, *self.ends]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
            end.close()
        self.ends = []

    def accept(self, listening):
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(SERVER, source_address=(self.address, 0))
            except OSError:
                near.close()
                continue
            self.ends += [near, far]
            for pair in (near, far), (far, near):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    @staticmethod
    def carry(source, to):
        try:
            while part := source.recv(1 << 16):
                to.sendall(part)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # cut, or closed by the other side
