// The chat page: joins the parts. It holds nothing of its own that the gateway does not have, so a reload loses nothing.
import { call, createRemedies } from "./api.js";
import { createApprovals } from "./approvals.js";
import { createComposer } from "./composer.js";
import { createConnection } from "./connection.js";
import { byId } from "./dom.js";
import { createNotices } from "./notices.js";
import { setUpProviders, setUpTheme } from "./settings.js";
import { createSidebar } from "./sidebar.js";
import { Transcript } from "./transcript.js";
import { createView } from "./view.js";

const CHIP = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  "signed-out": "Signed out",
};
const scroll = byId("scroll");
const remedyOf = createRemedies();
const { complain, hush, speak } = createNotices({ alert: byId("alert"), spoken: byId("spoken") }, remedyOf);
const composer = createComposer(
  { form: byId("composer"), message: byId("message"), examples: byId("examples") },
  { send, last: () => transcript.lastUserText() },
);
let session_id = null;
let state = "connecting";
let transcript = null;
/** Sent and not yet accepted. */
let unsent = null;
let stuck = true;
/** The replay is over. */
let live = false;

const view = createView(byId("log"), { fork, undo, remedyOf, drawn });
const approvals = createApprovals(byId("approvals"), {
  send: (op) => connection.send(op),
  speak,
  mayFocus: composer.isEmpty,
  changed(had_focus) {
    if (had_focus) composer.focus();
    follow();
  },
});
const connection = createConnection({
  since: () => transcript.last,
  state: showState,
  attached() {
    live = false;
    transcript.reattached();
    sidebar.attached();
    void approvals.look();
  },
  op: hear,
});
const sidebar = createSidebar(
  { list: byId("session-list"), find: byId("find"), note: byId("session-note") },
  (error) => error.status === 401 || complain(error),
);
const providers = setUpProviders(byId("provider"), complain, speak);
setUpTheme(byId("theme"), byId("theme-name"));

function hear(op) {
  switch (op.op) {
    case "event":
      return hearEvent(op);
    case "accepted":
      if (approvals.settled(op)) return;
      if (op.of === "message" && op.ref === unsent?.ref) unsent = null;
      return;
    case "error":
      if (approvals.settled(op)) return;
      if (op.ref !== undefined && op.ref === unsent?.ref) takeBack();
      complain(op);
  }
}

function hearEvent(op) {
  const { kind } = op.event;
  if (kind.startsWith("approval.")) approvals.heard(op.event);
  else if (kind === "session.replay.done") {
    live = true;
    void replayed();
  } else if (kind === "session.compaction.started") speak("Summarising earlier messages");
  else if (kind === "session.compaction.failed")
    complain({ code: "loop.failed", message: op.event.payload.error });
  else transcript.take(op);
  if (op.event.payload.kind === "anchor" && live) checkCompaction().catch(complain);
}

/** What was under way when the line was lost may have ended without us. */
async function replayed() {
  drawState();
  checkCompaction().catch(complain);
  if (unsent?.lost === true) {
    const arrived = transcript.items.some(
      ({ type, entry_id, text }) => type === "user" && entry_id > unsent.after && text === unsent.text,
    );
    if (arrived) unsent = null;
    else takeBack();
  }
  const { running, run_id } = transcript;
  if (!running || run_id === null) return;
  const asked = transcript;
  const run = await call("GET", `/v1/runs/${encodeURIComponent(run_id)}`).catch(() => null);
  if (run === null || run.status === "running" || asked !== transcript || asked.run_id !== run_id) return;
  // A turn that ended meanwhile has said so on the tape; one that has not was cut off.
  asked.endRun(run.error ?? { code: "loop.failed", message: "the turn ended without an answer" });
}

function open(id) {
  if (id === session_id && transcript !== null) return;
  session_id = id;
  view.clear();
  hush();
  transcript = new Transcript({ ...view, state: stateSoon });
  unsent = null;
  stuck = true;
  approvals.watch(id);
  connection.watch(id);
  sidebar.open(id);
  byId("title").textContent = id ?? "New session";
  document.title = `${id ?? "Chat"} · Backplane`;
  drawState();
  hideSessions();
  composer.focus();
}

const fromAddress = () => {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
};

function showState(next) {
  const before = state;
  state = next;
  const chip = byId("chip");
  chip.dataset.state = next;
  chip.textContent = CHIP[next];
  if (next !== "live" && unsent !== null) unsent.lost = true;
  if (next === "live" && before !== "live") {
    void sidebar.refresh();
    void providers.refresh();
  }
  drawState();
}

function drawState() {
  const running = transcript.running;
  const out = state === "signed-out";
  byId("stop").hidden = !running;
  byId("send").disabled = state !== "live";
  byId("signed-out").hidden = !out;
  byId("empty").hidden = out || transcript.items.length > 0 || (session_id !== null && running);
  byId("sign-out").hidden = out || state === "connecting";
  byId("log").hidden = transcript.items.length === 0;
  const was = byId("talk").dataset.running === "true";
  byId("talk").dataset.running = String(running);
  if (was && !running) speak("Answer complete");
}

/** False: it was not sent, and stays where it is. */
function send(text) {
  if (state !== "live") return false;
  hush();
  if (session_id === null) location.hash = encodeURIComponent(newId());
  if (fromAddress() !== session_id) open(fromAddress());
  stuck = true;
  const ref = connection.act({ op: "message", text });
  if (ref === null) return false;
  unsent = { ref, text, after: transcript.last };
  return true;
}

function takeBack() {
  composer.giveBack(unsent.text);
  unsent = null;
  speak("Your message was not sent");
}

function interrupt() {
  if (transcript.running) connection.act({ op: "interrupt" });
}

async function fork(at) {
  try {
    const child = await call("POST", `/api/sessions/${encodeURIComponent(session_id)}/fork`, { at });
    location.hash = encodeURIComponent(child.id);
  } catch (error) {
    complain(error);
  }
}

async function undo() {
  try {
    await call("POST", `/api/sessions/${encodeURIComponent(session_id)}/undo-compaction`, {});
    await checkCompaction();
  } catch (error) {
    complain(error);
  }
}

/** The tape keeps the mark of a compaction that was undone; where the session stands says which it is. */
async function checkCompaction() {
  const asked = transcript;
  if (!asked.items.some(({ of }) => of === "compaction")) return;
  const { head_chain_id } = await call("GET", `/v1/sessions/${encodeURIComponent(session_id)}`);
  const { origin } = await call("GET", `/v1/chains/${encodeURIComponent(head_chain_id)}`);
  if (asked === transcript) asked.compactionStands(origin === "compaction");
}

/** Readable and unique enough; the first message makes the session. */
function newId() {
  const stamp = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return `chat-${stamp}-${random.toString(36).padStart(5, "0").slice(-5)}`;
}

/** Where the list lies over the conversation. */
function hideSessions() {
  byId("shell").removeAttribute("data-sessions");
  byId("show-sessions").setAttribute("aria-expanded", "false");
}

/** A turn's end shows together with its last words, which are drawn with the next frame. */
function stateSoon() {
  if (transcript.running) drawState();
  view.drawSoon();
}

function drawn() {
  drawState();
  follow();
}

/** Stays at the end while the reader is there, and lets be who reads further up. */
function follow() {
  if (stuck) scroll.scrollTop = scroll.scrollHeight;
}
scroll.addEventListener("scroll", () => {
  stuck = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
});

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (byId("shell").hasAttribute("data-sessions")) byId("show-sessions").click();
  else interrupt();
});
byId("stop").addEventListener("click", interrupt);
byId("new-session").addEventListener("click", () => {
  if (location.hash === "") open(null);
  else location.hash = "";
  composer.focus();
});
byId("session-list").addEventListener("click", hideSessions);
byId("show-sessions").addEventListener("click", () => {
  const shown = byId("shell").toggleAttribute("data-sessions");
  byId("show-sessions").setAttribute("aria-expanded", String(shown));
});
byId("sign-out").addEventListener("click", () => {
  void call("POST", "/v1/logout").then(() => location.reload(), complain);
});
addEventListener("hashchange", () => open(fromAddress()));
open(fromAddress());
