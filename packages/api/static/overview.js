// The overview page: the status of the gateway, read with the cookie of this browser. It keeps a connection, so that it
// notices when the gateway stops.
import { createConnection } from "/static/chat/connection.js";

const STATES = {
  live: { heading: "The gateway is running", lead: "Loading the status…" },
  reconnecting: { heading: "The gateway does not respond", lead: "Waiting for it to return…" },
  "signed-out": { heading: "The gateway is running", lead: "Sign in to see the status." },
};
const byId = (id) => document.getElementById(id);

async function read(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  const body = await response.json();
  if (!response.ok) throw Object.assign(new Error(body.error.message), body.error);
  return body;
}

function tile(label, figure, tone) {
  const card = document.createElement("div");
  card.className = "card";
  const value = document.createElement("div");
  value.className = tone ? `figure ${tone}` : "figure";
  value.textContent = figure;
  const name = document.createElement("div");
  name.className = "label";
  name.textContent = label;
  card.append(value, name);
  return card;
}

const amount = (list) => (list.next === null ? String(list.items.length) : `${list.items.length}+`);

function row(invocation) {
  const line = document.createElement("tr");
  const when = new Date(invocation.created_at).toLocaleString();
  const status = invocation.error ? `${invocation.status} (${invocation.error.code})` : invocation.status;
  const tone = invocation.status === "succeeded" ? "good" : invocation.status === "failed" ? "bad" : "";
  for (const [text, className] of [
    [invocation.export_id, ""],
    [status, tone],
    [`${invocation.package_id} ${invocation.package_version}`, "muted"],
    [when, "muted"],
  ]) {
    const cell = document.createElement("td");
    cell.textContent = text;
    cell.className = className;
    line.append(cell);
  }
  return line;
}

function showState(name) {
  const { heading, lead } = STATES[name];
  byId("state").textContent = heading;
  byId("lead").textContent = lead;
  byId("signed-out").hidden = name !== "signed-out";
  // Figures of a gateway that does not respond would be outdated.
  for (const id of ["tiles", "recent", "empty", "sign-out"]) byId(id).hidden = true;
  if (name === "live") void showFigures();
}

async function showFigures() {
  try {
    const [status, packages, bindings, invocations] = await Promise.all([
      read("/v1/status"),
      read("/v1/plugin-packages?limit=500"),
      read("/v1/plugin-bindings?limit=500"),
      read("/v1/invocations?limit=10"),
    ]);
    const isolation = status.sandbox.available ? "isolated plugins can run" : status.sandbox.reason;
    byId("lead").textContent =
      `Version ${status.version}, ${status.ready ? "ready" : "not ready"}; ${isolation}`;
    byId("tiles").replaceChildren(
      tile("packages", amount(packages)),
      tile("bindings", amount(bindings)),
      tile("running", String(status.invocations.running)),
      tile("awaiting approval", String(status.invocations.waiting_approval)),
      tile("store", status.store.ok ? "up" : "down", status.store.ok ? "good" : "bad"),
    );
    byId("rows").replaceChildren(...invocations.items.map(row));
    const list = invocations.items.length > 0 ? "recent" : "empty";
    for (const id of ["tiles", list, "sign-out"]) byId(id).hidden = false;
  } catch (error) {
    byId("lead").textContent = `The status could not be loaded: ${error.message}`;
  }
}

byId("sign-out").addEventListener("click", () => {
  void fetch("/v1/logout", { method: "POST" }).then(() => location.reload());
});
createConnection({ state: showState, op() {}, since: () => 0, attached() {} });
