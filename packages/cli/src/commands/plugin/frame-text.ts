/** One line for a frame of vai.rpc.v1 or rterm.plugin.v1: what it is, which request it belongs to, and its content. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

const MAX_CONTENT = 400;

/** `text` is the frame as JSON; text that was cut is shown as it is. */
export function describeFrame(text: string): string {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return text;
  }
  if (!isObject(frame)) return text;
  const type = textOf(frame.type);
  switch (type) {
    case "hello":
      return `hello ${content(frame.plugin ?? frame.host)}`;
    case "handshake":
      return `handshake ${content(frame.manifest ?? frame.protocol_version)}`;
    case "request":
      return describeRequest(frame);
    case "event":
      return `event ${textOf(frame.request_id)} ${content(frame.event)}`;
    case "response":
      return describeResponse(frame);
    case "cancel":
      return `cancel ${textOf(frame.request_id)} ${textOf(frame.reason)}`;
    default:
      return `${type} ${content(frame)}`;
  }
}

/** The context is left out: it is the same for each call and long. */
function describeRequest({ id, op, body, request_id, tool_name, input }: JsonObject): string {
  if (!isObject(body)) return `request ${textOf(request_id)} ${textOf(tool_name)} ${content(input)}`;
  const { export_id, context: _context, ...rest } = body;
  return `request ${textOf(id)} ${textOf(op)} ${textOf(export_id)} ${content(rest.input ?? rest)}`;
}

function describeResponse({ id, request_id, ok, body, status, output, error }: JsonObject): string {
  const name = `response ${textOf(id ?? request_id)}`;
  if (isObject(body)) return `${name} ${textOf(body.status)} ${content(body.result)}`.trimEnd();
  if (ok === undefined) return `${name} ${textOf(status)} ${content(output ?? error)}`;
  return `${name} ok:false ${content(error)}`;
}

function content(value: Json | undefined): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > MAX_CONTENT ? `${text.slice(0, MAX_CONTENT)}…` : text;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}
