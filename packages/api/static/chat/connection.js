// The WebSocket of the page. After a lost connection it reconnects and resumes after the last entry that the page has,
// so that no entry is missed or repeated.
//
//   connecting → live → reconnecting → live …, and signed-out while this browser has no session with the gateway
//
// Signed out, the page sends nothing until another tab signs in or this one gets the focus.

const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 2_000;
const ANSWER_MS = 10_000;

/** `handlers`: state(name), op(op), since() for the next attach, attached(op). */
export function createConnection(handlers) {
  const url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
  let socket = null;
  let session_id = null;
  let connection_id = null;
  let delay = FIRST_DELAY_MS;
  let retry = null;
  let heartbeat = null;
  let silence = null;
  let refs = 0;
  let attached = false;
  let was_connected = false;
  let signed_out = false;
  let queue = [];
  const tabs = new BroadcastChannel("login");

  const isOpen = () => socket?.readyState === WebSocket.OPEN;

  function send(op) {
    if (!isOpen()) return null;
    const ref = op.ref ?? `r${++refs}`;
    socket.send(JSON.stringify({ ...op, ref }));
    return ref;
  }

  /** Sends an op for the open session once it is attached. Returns the ref of the op, or null without a connection. */
  function sendToSession(op) {
    if (attached) return send({ ...op, connection_id });
    if (!isOpen()) return null;
    const ref = `r${++refs}`;
    queue.push({ ...op, ref });
    return ref;
  }

  function attach() {
    if (session_id === null || !isOpen()) return;
    const replaces = connection_id === null ? {} : { connection_id };
    send({ op: "attach", session_id, since_entry: handlers.since(), ...replaces });
  }

  function open() {
    retry = null;
    const opened = new WebSocket(url, "backplane.v1");
    socket = opened;
    opened.addEventListener("open", () => {
      delay = FIRST_DELAY_MS;
      was_connected = true;
      signed_out = false;
      tabs.postMessage("signed-in");
      startHeartbeat(20_000);
      if (session_id === null) handlers.state("live");
      else attach();
    });
    opened.addEventListener("message", ({ data }) => {
      clearTimeout(silence);
      silence = null;
      if (opened === socket) receive(JSON.parse(data));
    });
    opened.addEventListener("close", () => {
      if (opened === socket) void reconnect();
    });
  }

  function receive(op) {
    if (op.op === "attached") {
      if (op.session_id !== session_id) {
        // The person opened another session in the meantime.
        send({ op: "detach", connection_id: op.connection_id });
        return;
      }
      connection_id = op.connection_id;
      attached = true;
      startHeartbeat(op.heartbeat_ms / 3);
      handlers.state("live");
      handlers.attached(op);
      for (const queued of queue.splice(0)) sendToSession(queued);
    } else if (op.op === "event" && op.session_id !== session_id) return;
    else handlers.op(op);
  }

  /** A silently broken connection is detected by an unanswered heartbeat. */
  function startHeartbeat(every_ms) {
    clearInterval(heartbeat);
    heartbeat = setInterval(() => {
      send({ op: "heartbeat" });
      silence ??= setTimeout(() => {
        // The browser takes a long time to close a broken connection, so the page does not wait for it.
        socket?.close();
        void reconnect();
      }, ANSWER_MS);
    }, every_ms);
  }

  async function reconnect() {
    clearInterval(heartbeat);
    clearTimeout(silence);
    silence = null;
    socket = null;
    attached = false;
    queue = [];
    if (was_connected) handlers.state("reconnecting");
    signed_out = await isSignedOut();
    if (signed_out) {
      handlers.state("signed-out");
      return;
    }
    retryIn(delay);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }

  function retryIn(ms) {
    clearTimeout(retry);
    retry = setTimeout(open, ms);
  }

  /** A browser does not expose why an upgrade was rejected. */
  async function isSignedOut() {
    try {
      return (await fetch("/v1/status", { headers: { accept: "application/json" } })).status === 401;
    } catch {
      return false;
    }
  }

  /** Another tab may have signed in. */
  async function recheckSignIn() {
    if (!signed_out) return;
    signed_out = await isSignedOut();
    if (!signed_out && socket === null) open();
  }

  addEventListener("online", () => {
    if (socket === null && retry !== null) retryIn(0);
  });
  addEventListener("focus", () => void recheckSignIn());
  tabs.addEventListener("message", () => void recheckSignIn());
  open();

  return {
    send,
    sendToSession,
    /** Detaches from the open session and attaches to `next`, or to no session if it is null. */
    watch(next) {
      if (attached) send({ op: "detach", connection_id });
      session_id = next;
      connection_id = null;
      attached = false;
      queue = [];
      attach();
    },
  };
}
