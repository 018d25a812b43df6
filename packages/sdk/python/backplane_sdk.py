"""Backplane plugins in Python: one file, standard library only, Python 3.9 or newer.

Copy this file beside your plugin (``lib/`` in the examples) and write::

    from backplane_sdk import Plugin, fail

    plugin = Plugin("acme/greeter", "0.1.0")

    @plugin.tool("greet")
    def greet(input, call):
        call.progress("looking up the greeting")
        if not input.get("name"):
            fail("The name is missing.")
        return {"greeting": f"{call.config.get('greeting', 'Hello')}, {input['name']}!"}

    if __name__ == "__main__":
        plugin.serve()

The protocol (``vai.rpc.v1``) owns stdin and stdout. ``print`` and child processes write to stderr, which the gateway
keeps with the invocation. Calls run in separate threads, at most ``max_threads`` at a time. When a call is cancelled or
its deadline passes, ``call.cancelled`` is set: ``call.sleep``, ``call.blocking`` and ``call.check`` then raise
``Cancelled``. A handler that ignores this is killed with its process after a grace period.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
import time
from datetime import datetime, timezone

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is for checkers only: a plugin should start fast
    from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Tuple

    Json = Any
    Handler = Callable[[Any, "Call"], Any]

__all__ = ["Call", "Cancelled", "Plugin", "fail", "retry_later"]

PROTOCOL = "vai.rpc.v1"
OPS = ("tool.invoke", "hook.handle", "compactor.compact", "harness.run")
FRAME_BYTES = 1024 * 1024
HEADER_BYTES = 4096
JSON_DEPTH = 64
# Longer structured output is not repeated as text, because both copies have to fit into one frame.
TEXT_COPY_LIMIT = 100_000
ANSWER_KEYS = {"content", "structured_output", "is_error", "retryable", "status", "yield_to_user"}
# How long the process waits for the answers of calls in flight after a shutdown.
DRAIN_SECONDS = 1.0


class Cancelled(Exception):
    """The call was cancelled or its deadline has passed. Do not catch it: the SDK turns it into the right answer."""


class Failure(Exception):
    """Raised by `fail` and `retry_later`."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class ProtocolError(Exception):
    """The host sent an invalid frame. Nothing after it can be trusted."""


def fail(message: str) -> NoReturn:
    """Ends the call as failed; a retry would not help."""
    raise Failure(message, "failed")


def retry_later(message: str) -> NoReturn:
    """Ends the call as a retryable failure; the gateway may try again."""
    raise Failure(message, "retryable_failure")


class CancelEvent(threading.Event):
    """Set when the host cancels the call or its deadline passes."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._ends = time.monotonic() + seconds
        self._callbacks: List[Callable[[], None]] = []
        self._guard = threading.Lock()

    def time_left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def is_set(self) -> bool:
        return super().is_set() or self.time_left() == 0.0

    def wait(self, timeout: Optional[float] = None) -> bool:
        ends = self._ends if timeout is None else min(self._ends, time.monotonic() + timeout)
        while not self.is_set() and (left := ends - time.monotonic()) > 0:
            super().wait(left)
        return self.is_set()

    def set(self) -> None:
        with self._guard:
            super().set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_set(self, callback: Callable[[], None]) -> None:
        with self._guard:
            if not super().is_set():
                self._callbacks.append(callback)
                return
        callback()


class Call:
    """The call that a handler serves."""

    def __init__(self, serving: "_Serving", request_id: str, op: str, body: Dict[str, Json]) -> None:
        self._serving = serving
        self._request_id = request_id
        self._op = op
        self._body = body
        self._replied = False
        self._started = False
        #: Ids of the invocation, session, chain and run, and the scratch folder, named as on the wire.
        self.context: Dict[str, Json] = body["context"]
        #: The binding's configuration, checked by the gateway against config_schema.
        self.config: Dict[str, Json] = self.context.get("config") or {}
        #: Values of the secret slots that the operator has bound.
        self.secrets: Dict[str, str] = self.context.get("secrets") or {}
        self.grant: Dict[str, Json] = self.context.get("grant") or {}
        self.deadline: datetime = _parse_time(self.context.get("deadline_at", ""))
        #: A threading.Event: `is_set()` and `wait(seconds)`.
        self.cancelled = CancelEvent((self.deadline - datetime.now(timezone.utc)).total_seconds())
        #: The host's reason for the cancellation; `deadline_exceeded` unless the host has cancelled the call.
        self.cancel_reason = "deadline_exceeded"
        #: Tools: the same for all retries of one call, so it can be the key of an idempotent write.
        self.tool_execution_id: str = body.get("tool_execution_id", "")
        #: Hooks: the same for all attempts of one delivery.
        self.delivery_id: str = body.get("delivery_id", "")
        self.attempt: int = body.get("attempt", 1)

    def time_left(self) -> float:
        """Seconds until the deadline, never below 0; suitable as a `timeout=`."""
        return self.cancelled.time_left()

    def check(self) -> None:
        """Raises Cancelled when the call should stop. Use it in loops."""
        if self.cancelled.is_set():
            raise Cancelled(f"The call was cancelled: {self.cancel_reason}")

    def sleep(self, seconds: float) -> None:
        self.cancelled.wait(seconds)
        self.check()

    def blocking(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs work(*args), which may block, and returns its result; a cancellation does not wait for it."""
        done: "queue.SimpleQueue[Optional[Tuple[bool, Any]]]" = queue.SimpleQueue()

        def run() -> None:
            try:
                done.put((True, work(*args)))
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
                done.put((False, error))

        threading.Thread(target=run, daemon=True).start()
        self.cancelled.on_set(lambda: done.put(None))
        try:
            outcome = done.get(timeout=self.time_left())
        except queue.Empty:
            outcome = None
        # A timeout that the work computed from the deadline expires at the same moment; its error is a cancellation.
        if outcome is None or (not outcome[0] and self.cancelled.is_set()):
            raise Cancelled(f"The call was cancelled: {self.cancel_reason}")
        succeeded, value = outcome
        if not succeeded:
            raise value
        return value

    def secret(self, slot: str) -> str:
        """Returns the value of a slot; fails the call if the slot is not bound."""
        value = self.secrets.get(slot)
        if value is None:
            fail(f"The secret slot {slot} is not bound. Map it in the binding's secrets.")
        return value

    def progress(self, message: str, data: Json = None) -> None:
        """Reports the progress of the call to watchers."""
        event: Dict[str, Json] = {"type": "progress", "message": message}
        if data is not None:
            event["data"] = data
        self.emit(event)

    def emit(self, event: Dict[str, Json]) -> None:
        frame = {"protocol": PROTOCOL, "type": "event", "request_id": self._request_id, "event": event}
        self._serving.send_for(self, _encode(frame), last=False)

    def checkpoint(self, data: Json, kind: str = "checkpoint") -> None:
        """For harnesses: stored before any later event; a resumed harness receives the last checkpoint."""
        self.emit({"type": "checkpoint", "checkpoint": {"kind": kind, "data": data}})

    def write_artifact(self, path: str, data: Any) -> Dict[str, Json]:
        """Writes str or bytes to the scratch folder. Return the reference in the result, and the gateway stores it."""
        data = data.encode("utf-8") if isinstance(data, str) else bytes(data)
        file = self._scratch_file(path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as out:
            out.write(data)
        return {"transport": "artifact", "path": path, "bytes": len(data), "sha256": _sha256(data)}

    def read_artifact(self, reference: Dict[str, Json]) -> bytes:
        with open(self._scratch_file(reference["path"]), "rb") as file:
            data = file.read()
        if _sha256(data) != reference.get("sha256"):
            fail(f"{reference['path']} is not the referenced file.")
        return data

    def _scratch_file(self, path: str) -> str:
        folder = self.context.get("scratch_dir")
        if not folder:
            fail("This export has no scratch folder. Set filesystem = \"scratch\" in its permissions in vai-plugin.toml.")
        if any(part in ("", ".", "..") for part in path.split("/")):
            fail(f"{path!r} is not a path inside the scratch folder.")
        return os.path.join(folder, path)

    def _with_large_input(self) -> Dict[str, Json]:
        """Returns the body. A part that was too large for a frame is read from its file in the scratch folder."""
        body = self._body
        for outer, inner in (("input", None), ("source", "projection"), ("trigger", None)):
            value = body.get(outer)
            part = value if inner is None else value.get(inner) if isinstance(value, dict) else None
            named = isinstance(part, dict) and part.get("transport") == "artifact"
            if named and part.get("path") == f"{inner or outer}.json":
                read = json.loads(self.read_artifact(part))
                return {**body, outer: read if inner is None else {**value, inner: read}}
        return body

    def log(self, *words: object) -> None:
        """Writes one line to stderr, which the gateway stores with the invocation."""
        line = " ".join(str(word) for word in words)
        sys.stderr.write(f"[{self.context.get('invocation_id', '?')}] {line}\n")
        sys.stderr.flush()

    def run(self, key: str, session_id: str, text: str) -> Dict[str, Json]:
        """For harnesses: starts a run and waits for its end. A resumed harness with the same key gets the same run."""
        request = {"session_id": session_id, "input": {"text": text}}
        while True:
            # A repeated request with the same key does not start another run; it waits for the same one.
            answer = self.gateway("/v1/runs?wait=20", request, idempotency_key=key)
            if answer["status"] != "running":
                return answer

    def gateway(
        self,
        path: str,
        body: Json = None,
        method: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Json:
        """Sends JSON to the gateway's own API with the call's delegated token, and returns the JSON response."""
        import urllib.error
        import urllib.request

        access = self.context.get("gateway") or {}
        token = access.get("delegation_token")
        if not token:
            fail("This call has no gateway token. Add gateway_api_scopes to its permissions in vai-plugin.toml.")
        if not path.startswith("/") or path.startswith("//"):
            fail(f"{path} is not a path of the gateway. Use one such as /v1/sessions.")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        request = urllib.request.Request(
            access["base_url"].rstrip("/") + path,
            data=None if body is None else json.dumps(body).encode("utf-8"),
            headers=headers,
            method=method or ("GET" if body is None else "POST"),
        )

        def fetch(timeout: float) -> Json:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return json.loads(response.read() or b"null")

        try:
            return self.blocking(fetch, self.time_left())
        except urllib.error.HTTPError as error:
            message = f"The gateway returned HTTP {error.code} for {path}."
            retry_later(message) if error.code == 429 or error.code >= 500 else fail(message)


class Plugin:
    """A plugin, whose exports are registered with decorators. Their ids are those in vai-plugin.toml."""

    def __init__(self, package_id: str, version: str, max_threads: int = 256) -> None:
        self.package_id = package_id
        self.version = version
        self.max_threads = max_threads
        self._handlers: Dict[Tuple[str, str], Tuple[Handler, Optional[frozenset]]] = {}

    def tool(self, export_id: str) -> Callable[[Handler], Handler]:
        """f(input, call) → a string, any JSON value, or {"content": [...], "structured_output": ...}."""
        return self._register("tool.invoke", export_id)

    def hook(self, export_id: str, on: Optional[Iterable[str]] = None) -> Callable[[Handler], Handler]:
        """f(event, call) → nothing. A retry of a delivery has the same delivery_id, so be idempotent."""
        return self._register("hook.handle", export_id, None if on is None else frozenset(on))

    def compactor(self, export_id: str) -> Callable[[Handler], Handler]:
        """f(request, call) → {"seed_blocks": [...], "summary": {...}, "diagnostics": {...}}."""
        return self._register("compactor.compact", export_id)

    def harness(self, export_id: str) -> Callable[[Handler], Handler]:
        """f(request, call) → {"checkpoint": ..., "summary": {...}, "artifacts": [...]} or the text of the summary."""
        return self._register("harness.run", export_id)

    def serve(self) -> None:
        """Serves until the host sends `shutdown` or exits."""
        _Serving(self).run()

    def _register(self, op: str, export_id: str, on: Optional[frozenset] = None) -> Callable:
        def register(handler: Handler) -> Handler:
            if any(export_id == known for _, known in self._handlers):
                raise ValueError(f"Two exports are called {export_id}; give each its own id.")
            self._handlers[(op, export_id)] = (handler, on)
            return handler

        return register

    def _answer(self, call: Call) -> Dict[str, Json]:
        op, body = call._op, call._with_large_input()
        entry = self._handlers.get((op, body["export_id"]))
        if entry is None:
            known = ", ".join(export_id for _, export_id in self._handlers)
            name = f"{self.package_id} {self.version}"
            fail(f"{name} has no export {body['export_id']} for {op}. It has: {known}.")
        handler, on = entry
        if op == "tool.invoke":
            answer = _tool_answer(handler(body.get("input", {}), call))
            if not answer["is_error"]:
                return {"status": "succeeded", "result": answer}
            return {"status": "retryable_failure" if answer["retryable"] else "failed", "result": answer}
        if op == "hook.handle":
            event = body["event"]
            if on is not None and event["type"] not in on:
                fail(f"The hook {body['export_id']} does not subscribe to {event['type']}.")
            handler(event, call)
            return {"status": "ack"}
        request = {key: value for key, value in body.items() if key not in ("export_id", "context")}
        result = handler(request, call)
        if op == "harness.run":
            if isinstance(result, str):
                result = {"summary": {"text": result}}
            result = {"artifacts": [], **(result or {})}
        return {"status": "succeeded", "result": result}


class _Serving:
    """Serves a plugin: the main thread reads frames, and worker threads answer them. Writing has a lock of its own, so
    that `cancel` frames are read even while a slow host delays a write."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._calls: Dict[str, Call] = {}
        self._lock = threading.Condition()
        self._pipe = threading.Lock()
        self._jobs: "queue.SimpleQueue[Call]" = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._input = -1
        self._output = -1

    def run(self) -> None:
        self._reserve_stdio()
        try:
            frames = _read_frames(self._input)
            hello = next(frames, None)
            if hello is None:
                return
            if hello.get("type") != "hello" or hello.get("role") != "host":
                raise ProtocolError("The first frame must be the host's hello.")
            identity = {"package_id": self._plugin.package_id, "version": self._plugin.version}
            reply = {"protocol": PROTOCOL, "type": "hello", "role": "plugin", "plugin": identity}
            self._write(_encode(reply))
            for frame in frames:
                if frame["type"] == "shutdown":
                    break
                self._handle_frame(frame)
        except ProtocolError as error:
            sys.stderr.write(f"{self._plugin.package_id}: {error}\n")
            sys.stderr.flush()
            os._exit(1)
        self._stop()

    def _reserve_stdio(self) -> None:
        """The protocol keeps the real pipes; prints and child processes get stderr and an empty stdin."""
        self._input, self._output = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        devnull = os.open(os.devnull, os.O_RDONLY)
        os.dup2(devnull, 0)
        os.close(devnull)
        sys.stdout = sys.stderr

    def _handle_frame(self, frame: Dict[str, Json]) -> None:
        if frame["type"] == "request":
            self._start_call(frame)
        elif frame["type"] == "cancel":
            self._cancel(frame)
        else:
            raise ProtocolError(f"A host does not send {frame['type']!r} here.")

    def _start_call(self, frame: Dict[str, Json]) -> None:
        request_id, op, body = frame.get("id"), frame.get("op"), frame.get("body")
        if not isinstance(request_id, str) or not request_id:
            raise ProtocolError("A request has no id.")
        named = isinstance(body, dict) and isinstance(body.get("export_id"), str)
        if op not in OPS or not named or not isinstance(body.get("context"), dict):
            self._refuse(request_id, "A request needs a known op, body.export_id and body.context.")
            return
        try:
            call = Call(self, request_id, op, body)
        except (OverflowError, TypeError, ValueError):
            self._refuse(request_id, "The deadline of the request is not a valid time.")
            return
        with self._lock:
            if request_id in self._calls:
                raise ProtocolError(f"The request id {request_id} is already in use.")
            self._calls[request_id] = call
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._plugin.max_threads:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put(call)

    def _refuse(self, request_id: str, message: str) -> None:
        error = {"code": "protocol.invalid_frame", "message": message}
        frame = {"protocol": PROTOCOL, "type": "response", "id": request_id, "ok": False, "error": error}
        with self._pipe:
            self._write(_encode(frame))

    def _cancel(self, frame: Dict[str, Json]) -> None:
        with self._lock:
            call = self._calls.get(str(frame.get("request_id")))
            if call is None:
                return
            call.cancel_reason = str(frame.get("reason", ""))
            waiting, call._started = not call._started, True
        call.cancelled.set()
        if waiting:
            # No thread has started the call, and none will in time, so the cancel is answered here.
            self._reply(call, _failure("cancelled", "The call was cancelled before it started."))

    def _work(self) -> None:
        while True:
            call = self._jobs.get()
            with self._lock:
                started, call._started = call._started, True
            if not started:
                self._serve_call(call)
            with self._lock:
                self._idle += 1

    def _serve_call(self, call: Call) -> None:
        try:
            reply = self._plugin._answer(call)
        except Failure as error:
            reply = _failure(error.status, _message_of(error))
        except BaseException as error:  # noqa: BLE001 - there is no caller to raise it in
            message = _message_of(error)
            if call.cancelled.is_set():
                reply = _failure("cancelled", message)
            else:
                import traceback

                call.log(traceback.format_exc().rstrip())
                reply = _failure("failed", message)
        self._reply(call, reply)

    def _reply(self, call: Call, body: Dict[str, Json]) -> None:
        frame = {"protocol": PROTOCOL, "type": "response", "id": call._request_id, "ok": True, "body": body}
        try:
            data = _encode(frame)
        except (TypeError, ValueError) as error:
            frame["body"] = _failure("failed", f"The result cannot be sent: {error}")
            data = _encode(frame)
        self.send_for(call, data, last=True)

    def send_for(self, call: Call, data: bytes, last: bool) -> None:
        """Sends nothing after the reply of the call: neither an event nor another reply."""
        with self._pipe:
            if call._replied:
                return
            call._replied = last
            self._write(data)
        if last:
            with self._lock:
                self._calls.pop(call._request_id, None)
                self._lock.notify_all()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._output, view) :]
        except OSError:
            os._exit(0)  # the host has exited, so nobody reads the output

    def _stop(self) -> None:
        with self._lock:
            running = list(self._calls.values())
        for call in running:
            call.cancel_reason = "shutdown"
            call.cancelled.set()
        with self._lock:
            idle = self._lock.wait_for(lambda: not self._calls, DRAIN_SECONDS)
        sys.stderr.flush()
        if not idle:
            os._exit(0)  # a thread that still prints could crash the interpreter during its shutdown


def _read_frames(descriptor: int) -> Iterator[Dict[str, Json]]:
    """Frames until the end of the stream. Memory is bounded by one frame, whatever a header claims."""
    buffer = bytearray()

    def fill() -> bool:
        chunk = os.read(descriptor, 65536)
        buffer.extend(chunk)
        return len(chunk) > 0

    while True:
        while (end := buffer.find(b"\r\n\r\n", 0, HEADER_BYTES)) < 0:
            if len(buffer) >= HEADER_BYTES:
                raise ProtocolError(f"A frame's header is longer than {HEADER_BYTES} bytes.")
            if not fill():
                if buffer:
                    raise ProtocolError("The stream ended inside a frame.")
                return
        length = _content_length(bytes(buffer[:end]))
        del buffer[: end + 4]
        while len(buffer) < length:
            if not fill():
                raise ProtocolError("The stream ended inside a frame.")
        frame = _decode(bytes(buffer[:length]))
        del buffer[:length]
        yield frame


def _content_length(header: bytes) -> int:
    lengths: List[str] = []
    for line in header.decode("latin-1").split("\r\n"):
        match = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*", line)
        if match is None:
            raise ProtocolError("This is not a Content-Length header.")
        if match[1].lower() == "content-length":
            lengths.append(match[2])
    if len(lengths) != 1 or not re.fullmatch("[0-9]{1,15}", lengths[0]):
        raise ProtocolError("A frame needs exactly one Content-Length of digits.")
    if int(lengths[0]) > FRAME_BYTES:
        raise ProtocolError(f"A frame of {int(lengths[0])} bytes is announced; the limit is {FRAME_BYTES}.")
    return int(lengths[0])


def _decode(data: bytes) -> Dict[str, Json]:
    try:
        frame = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"A frame is not JSON: {error}") from None
    known = isinstance(frame, dict) and frame.get("protocol") == PROTOCOL
    if not known or not isinstance(frame.get("type"), str):
        raise ProtocolError(f"A frame must be an object with protocol {PROTOCOL} and a type.")
    if data.count(b"[") + data.count(b"{") > JSON_DEPTH and _deeper_than(frame, JSON_DEPTH):
        raise ProtocolError(f"A frame is nested deeper than {JSON_DEPTH}.")
    return frame


def _encode(frame: Dict[str, Json]) -> bytes:
    text = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half of a surrogate pair is not valid Unicode; the host would refuse the frame.
    body = text.encode("utf-8", "replace")
    if len(body) > FRAME_BYTES:
        raise ValueError(f"it takes {len(body)} bytes, but a frame holds {FRAME_BYTES}; send less, or a file.")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def _tool_answer(value: Json) -> Dict[str, Json]:
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        if value.keys() <= ANSWER_KEYS:
            return {"is_error": False, "retryable": False, **value}
    answer: Dict[str, Json] = {"content": [], "is_error": False, "retryable": False}
    if value is None:
        return answer
    if isinstance(value, str):
        return {**answer, "content": [{"type": "text", "text": value}]}
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text) > TEXT_COPY_LIMIT:
        text = f"{len(text)} characters of JSON; see structured_output."
    return {**answer, "content": [{"type": "text", "text": text}], "structured_output": value}


def _message_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an author's __str__ may fail, and the call still needs its answer
        return type(error).__name__


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _failure(status: str, message: str) -> Dict[str, Json]:
    content = [{"type": "text", "text": message}]
    retryable = status == "retryable_failure"
    return {"status": status, "result": {"content": content, "is_error": True, "retryable": retryable}}


def _parse_time(text: str) -> datetime:
    """Parses RFC 3339; before Python 3.11 fromisoformat accepts neither `Z` nor every length of fraction."""
    match = re.fullmatch(r"(.{19})(?:\.(\d+))?(Z|z|[+-]\d\d:\d\d)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a time")
    seconds, fraction, zone = match.groups()
    zone = "+00:00" if zone in "Zz" else zone
    return datetime.fromisoformat(f"{seconds}.{(fraction or '0').ljust(6, '0')[:6]}{zone}")


def _deeper_than(value: Json, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper_than(item, levels - 1) for item in inner)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
