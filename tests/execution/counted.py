"""Objects that know how many of them are alive."""

import threading


class Item:
    """Counts how many of its kind are alive."""

    lock = threading.Lock()
    alive = most = 0

    def __init__(self):
        with Item.lock:
            Item.alive += 1
            Item.most = max(Item.most, Item.alive)

    def __del__(self):
        with Item.lock:
            Item.alive -= 1
