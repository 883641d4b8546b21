"""Ray: a connection to its cluster, and a slow expert in actors on it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, final

import numpy as np

from ..errors import UserError, import_extra
from .processes import STARTING, Answering, Arrays, Lost, raised

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def connect_to_ray(address: str | None, field: str = "address", needs: str = "engine: ray") -> ModuleType:
    """Ray, connected to the cluster at `address`, by default that of RAY_ADDRESS, or to one of this machine
    alone that ends with us. Errors name the `field`; `needs` is what cannot do without Ray.
    """
    ray = import_extra("ray", needs, "ray")
    if ray.is_initialized():
        return ray
    place = address or os.environ.get("RAY_ADDRESS")
    host, _, port = (place or "").rpartition("://")[2].rpartition(":")
    if host and port.isdigit():  # Ray itself would wait for minutes where no server answers
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise UserError(f"{field}: no Ray cluster at {place!r} ({error.strerror or error}).") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True)
    except (ConnectionError, ValueError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{field}: no Ray cluster at {place!r} ({first}).") from None
    return ray


def passed_on(variables: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What Ray gets of the environment of a task or an actor: these variables, and PYTHONPATH as it was
    set, not our own places, which are this machine's.
    """
    set_here = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {"env_vars": {**variables, **set_here}}


def starter(settings: str) -> Callable[[], RemoteExpert]:
    """What starts an actor for the expert of these settings, one after another, spread over the nodes."""
    ray = connect_to_ray(None, "expert", "expert: ray")
    variables = dict.fromkeys(THREADS, "1") | {"JAX_PLATFORMS": "cpu"}
    # An actor asks for a core when it is placed and for none later, so that those of a node that is lost
    # find room on the others.
    worker = ray.remote(scheduling_strategy="SPREAD", runtime_env=passed_on(variables))(Answering)
    return lambda: RemoteExpert(ray, worker.remote(), settings)


@final
class RemoteExpert:
    """A worker on the cluster."""

    def __init__(self, ray: ModuleType, handle: Any, settings: str):
        self._ray, self._handle = ray, handle
        try:
            raised(self._call(handle.begin.remote(settings), STARTING))
        except BaseException as error:
            self.end()
            if isinstance(error, TimeoutError):
                raise UserError(f"expert: Ray has started no worker within {STARTING:g} s.") from error
            raise

    def ask(self, arrays: Arrays, timeout: float | None) -> Mapping[str, np.ndarray]:
        return self._call(self._handle.answer.remote(arrays), timeout)

    def _call(self, answer: Any, timeout: float | None) -> Mapping[str, np.ndarray]:
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=timeout)
        except errors.GetTimeoutError as error:
            raise TimeoutError(f"no answer within {timeout:g} s") from error
        except errors.RayError as error:
            raise Lost(f"its worker on Ray is gone ({str(error).strip().splitlines()[0]})") from error

    def end(self) -> None:
        with contextlib.suppress(Exception):  # it is gone, or Ray is
            self._ray.kill(self._handle)
