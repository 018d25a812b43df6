// One socket to the gateway, for as long as the page is open. When it is lost the page says so at once and tries again;
// it then asks for what comes after the last entry that it has, so nothing is missing and nothing comes twice.
//
//   connecting → live → reconnecting → live …, and signed-out while the gateway does not know this browser

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;
const SIGNED_OUT_PAUSE_MS = 1_500;
const ANSWER_MS = 10_000;

/** `handlers`: state(name), op(op), since() for the next attach, attached(op). */
export function createConnection(handlers) {
  const url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
  let socket = null;
  let session_id = null;
  let connection_id = null;
  let pause = FIRST_PAUSE_MS;
  let retry = null;
  let heart = null;
  let silence = null;
  let refs = 0;
  let attached = false;
  let known = false;
  let queue = [];

  const ready = () => socket?.readyState === WebSocket.OPEN;

  function send(op) {
    if (!ready()) return null;
    const ref = op.ref ?? `r${++refs}`;
    socket.send(JSON.stringify({ ...op, ref }));
    return ref;
  }

  /** For the session that is open; waits until it is attached. Answers the op's ref, or null without a line. */
  function act(op) {
    if (attached) return send({ ...op, connection_id });
    if (!ready()) return null;
    const ref = `r${++refs}`;
    queue.push({ ...op, ref });
    return ref;
  }

  function attach() {
    if (session_id === null || !ready()) return;
    const replaces = connection_id === null ? {} : { connection_id };
    send({ op: "attach", session_id, since_entry: handlers.since(), ...replaces });
  }

  function open() {
    retry = null;
    const mine = new WebSocket(url, "backplane.v1");
    socket = mine;
    mine.addEventListener("open", () => {
      pause = FIRST_PAUSE_MS;
      known = true;
      beat(20_000);
      if (session_id === null) handlers.state("live");
      else attach();
    });
    mine.addEventListener("message", ({ data }) => {
      clearTimeout(silence);
      silence = null;
      if (mine === socket) heard(JSON.parse(data));
    });
    mine.addEventListener("close", () => {
      if (mine === socket) void lost();
    });
  }

  function heard(op) {
    if (op.op === "attached") {
      if (op.session_id !== session_id) {
        // The page went on to another session before this one was there.
        send({ op: "detach", connection_id: op.connection_id });
        return;
      }
      connection_id = op.connection_id;
      attached = true;
      beat(op.heartbeat_ms / 3);
      handlers.state("live");
      handlers.attached(op);
      for (const waiting of queue.splice(0)) act(waiting);
    } else if (op.op === "event" && op.session_id !== session_id) return;
    else handlers.op(op);
  }

  /** A line that is cut without a word is found by a heartbeat that nobody answers. */
  function beat(every_ms) {
    clearInterval(heart);
    heart = setInterval(() => {
      send({ op: "heartbeat" });
      silence ??= setTimeout(() => {
        // Closing a dead line takes the browser long; it is given up at once.
        socket?.close();
        void lost();
      }, ANSWER_MS);
    }, every_ms);
  }

  async function lost() {
    clearInterval(heart);
    clearTimeout(silence);
    silence = null;
    socket = null;
    attached = false;
    queue = [];
    if (known) handlers.state("reconnecting");
    if (await signedOut()) {
      handlers.state("signed-out");
      again(SIGNED_OUT_PAUSE_MS);
      return;
    }
    again(pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }

  function again(ms) {
    clearTimeout(retry);
    retry = setTimeout(open, ms);
  }

  /** A browser is not told why an upgrade was refused. */
  async function signedOut() {
    try {
      return (await fetch("/v1/status", { headers: { accept: "application/json" } })).status === 401;
    } catch {
      return false;
    }
  }

  addEventListener("online", () => {
    if (socket === null && retry !== null) again(0);
  });
  open();

  return {
    send,
    act,
    /** Leaves the session that is open, if one is, for this one; null for none. */
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
