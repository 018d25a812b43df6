// The chat page: connects its parts. The gateway stores the conversation, so a reload loses only unsent text.
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
const findRemedy = createRemedies();
const { showError, clearError, speak } = createNotices(
  { alert: byId("alert"), spoken: byId("spoken") },
  findRemedy,
);
const composer = createComposer(
  { form: byId("composer"), message: byId("message"), examples: byId("examples") },
  { send, last: () => transcript.lastUserText() },
);
let session_id = null;
let state = "connecting";
let transcript = null;
/** The message that was sent and not yet accepted. */
let pending_message = null;
let at_end = true;
/** Whether the replay has ended. */
let replayed = false;

const view = createView(byId("log"), { fork, pin, undo, findRemedy, drawn });
const approvals = createApprovals(byId("approvals"), {
  send: (op) => connection.send(op),
  speak,
  mayFocus: composer.isEmpty,
  isLive: () => state === "live",
  changed(had_focus) {
    if (had_focus) composer.focus();
    follow();
  },
});
const connection = createConnection({
  since: () => transcript.last,
  state: showState,
  attached() {
    replayed = false;
    transcript.reattached();
    sidebar.attached();
    void approvals.refresh();
  },
  op: receive,
});
const sidebar = createSidebar(
  { list: byId("session-list"), find: byId("find"), note: byId("session-note") },
  (error) => error.status === 401 || showError(error),
);
const providers = setUpProviders(byId("provider"), showError, speak);
setUpTheme(byId("theme"), byId("theme-name"));

function receive(op) {
  switch (op.op) {
    case "event":
      return receiveEvent(op);
    case "accepted":
      if (approvals.handleReply(op)) return;
      if (op.of === "message" && op.ref === pending_message?.ref) pending_message = null;
      return;
    case "error":
      if (approvals.handleReply(op)) return;
      if (op.ref !== undefined && op.ref === pending_message?.ref) restorePendingMessage();
      showError(op);
  }
}

function receiveEvent(op) {
  const { kind } = op.event;
  if (kind.startsWith("approval.")) approvals.receive(op.event);
  else if (kind === "session.replay.done") {
    replayed = true;
    void onReplayed();
  } else if (kind === "session.compaction.started") speak("Summarizing earlier messages");
  else if (kind === "session.compaction.failed")
    showError({ code: "loop.failed", message: op.event.payload.error });
  else transcript.receive(op);
  if (op.event.payload.kind === "anchor" && replayed) checkCompaction().catch(showError);
}

/** While the connection was lost, the sent message may have arrived and the turn may have ended. */
async function onReplayed() {
  drawState();
  checkCompaction().catch(showError);
  if (transcript.items.length > 0) showPins().catch(showError);
  if (pending_message?.lost === true) {
    const arrived = transcript.items.some(
      ({ type, entry_id, text }) =>
        type === "user" && entry_id > pending_message.after && text === pending_message.text,
    );
    if (arrived) pending_message = null;
    else restorePendingMessage();
  }
  const { running, run_id } = transcript;
  if (!running || run_id === null) return;
  const requested = transcript;
  const run = await call("GET", `/v1/runs/${encodeURIComponent(run_id)}`).catch(() => null);
  if (run === null || run.status === "running" || requested !== transcript || requested.run_id !== run_id)
    return;
  // The tape records the end of a turn; a turn that ended without this record was interrupted by a crash.
  requested.endRun(run.error ?? { code: "loop.failed", message: "The turn ended without an answer." });
}

function open(id) {
  if (id === session_id && transcript !== null) return;
  session_id = id;
  view.clear();
  clearError();
  transcript = new Transcript({ ...view, state: scheduleState });
  pending_message = null;
  at_end = true;
  approvals.watch(id);
  connection.watch(id);
  sidebar.open(id);
  byId("title").textContent = id ?? "New session";
  document.title = `${id ?? "Chat"} · Backplane`;
  drawState();
  hideSessions();
  composer.focus();
}

const sessionInUrl = () => {
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
  if (next !== "live" && pending_message !== null) pending_message.lost = true;
  if (next === "live" && before !== "live") {
    void sidebar.refresh();
    void providers.refresh();
  }
  drawState();
}

function drawState() {
  const running = transcript.running;
  const signed_out = state === "signed-out";
  byId("stop").hidden = !running;
  byId("send").disabled = state !== "live";
  byId("signed-out").hidden = !signed_out;
  byId("empty").hidden = signed_out || transcript.items.length > 0 || (session_id !== null && running);
  byId("sign-out").hidden = signed_out || state === "connecting";
  byId("log").hidden = transcript.items.length === 0;
  const was_running = byId("conversation").dataset.running === "true";
  byId("conversation").dataset.running = String(running);
  if (was_running && !running) speak("Answer complete");
}

/** Returns false when the text was not sent; it then stays in the message box. */
function send(text) {
  if (state !== "live") return false;
  clearError();
  if (session_id === null) location.hash = encodeURIComponent(newId());
  if (sessionInUrl() !== session_id) open(sessionInUrl());
  at_end = true;
  const ref = connection.sendToSession({ op: "message", text });
  if (ref === null) return false;
  pending_message = { ref, text, after: transcript.last };
  return true;
}

function restorePendingMessage() {
  composer.restore(pending_message.text);
  pending_message = null;
  speak("Your message was not sent");
}

function interrupt() {
  if (transcript.running) connection.sendToSession({ op: "interrupt" });
}

async function fork(at) {
  try {
    const child = await call("POST", `/api/sessions/${encodeURIComponent(session_id)}/fork`, { at });
    location.hash = encodeURIComponent(child.id);
  } catch (error) {
    showError(error);
  }
}

async function pin(entry_id, pinned) {
  const path = `/v1/sessions/${encodeURIComponent(session_id)}/pins`;
  try {
    if (pinned) await call("POST", path, { entry_id });
    else await call("DELETE", `${path}/${entry_id}`);
    speak(pinned ? "Pinned" : "Unpinned");
    await showPins();
  } catch (error) {
    showError(error);
  }
}

async function showPins() {
  const requested = transcript;
  const { items } = await call("GET", `/v1/sessions/${encodeURIComponent(session_id)}/pins`);
  if (requested === transcript) requested.setPinned(new Set(items.map(({ entry_id }) => entry_id)));
}

async function undo() {
  try {
    await call("POST", `/api/sessions/${encodeURIComponent(session_id)}/undo-compaction`, {});
    await checkCompaction();
  } catch (error) {
    showError(error);
  }
}

/** The marker of a compaction stays after its undo; the origin of the head chain shows whether it is in effect. */
async function checkCompaction() {
  const requested = transcript;
  if (!requested.items.some(({ of }) => of === "compaction")) return;
  const { head_chain_id } = await call("GET", `/v1/sessions/${encodeURIComponent(session_id)}`);
  const { origin } = await call("GET", `/v1/chains/${encodeURIComponent(head_chain_id)}`);
  if (requested === transcript) requested.setCompactionInEffect(origin === "compaction");
}

/** A readable id for a new session, which is created when the page attaches to it. */
function newId() {
  const stamp = new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return `chat-${stamp}-${random.toString(36).padStart(5, "0").slice(-5)}`;
}

/** For narrow windows, where the list covers the conversation. */
function hideSessions() {
  byId("shell").removeAttribute("data-sessions");
  byId("show-sessions").setAttribute("aria-expanded", "false");
}

/** The end of a turn is shown with its last text, which is drawn in the next frame. */
function scheduleState() {
  if (transcript.running) drawState();
  view.scheduleDraw();
}

function drawn() {
  drawState();
  follow();
}

/** Scrolls to the end, unless the person has scrolled up. */
function follow() {
  if (at_end) scroll.scrollTop = scroll.scrollHeight;
}
scroll.addEventListener("scroll", () => {
  at_end = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
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
  void call("POST", "/v1/logout").then(() => location.reload(), showError);
});
addEventListener("hashchange", () => open(sessionInUrl()));
open(sessionInUrl());
