/** Describes a frame of vai.rpc.v1 or rterm.plugin.v1 in one line: its type, its request and its content. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

const MAX_CONTENT_CHARS = 400;

/** `text` is the frame as JSON; truncated JSON is shown unchanged. */
export function describeFrame(text: string): string {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return text;
  }
  if (!isObject(frame)) return text;
  const type = toText(frame.type);
  switch (type) {
    case "hello":
      return `hello ${contentText(frame.plugin ?? frame.host)}`;
    case "handshake":
      return `handshake ${contentText(frame.manifest ?? frame.protocol_version)}`;
    case "request":
      return describeRequest(frame);
    case "event":
      return `event ${toText(frame.request_id)} ${contentText(frame.event)}`;
    case "response":
      return describeResponse(frame);
    case "cancel":
      return `cancel ${toText(frame.request_id)} ${toText(frame.reason)}`;
    default:
      return `${type} ${contentText(frame)}`;
  }
}

/** Leaves out the context, which is long and similar in each request. */
function describeRequest({ id, op, body, request_id, tool_name, input }: JsonObject): string {
  if (!isObject(body)) return `request ${toText(request_id)} ${toText(tool_name)} ${contentText(input)}`;
  const { export_id, context: _context, ...rest } = body;
  return `request ${toText(id)} ${toText(op)} ${toText(export_id)} ${contentText(rest.input ?? rest)}`;
}

function describeResponse({ id, request_id, ok, body, status, output, error }: JsonObject): string {
  const name = `response ${toText(id ?? request_id)}`;
  if (isObject(body)) return `${name} ${toText(body.status)} ${contentText(body.result)}`.trimEnd();
  if (ok === undefined) return `${name} ${toText(status)} ${contentText(output ?? error)}`;
  return `${name} ok:false ${contentText(error)}`;
}

function contentText(value: Json | undefined): string {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > MAX_CONTENT_CHARS ? `${text.slice(0, MAX_CONTENT_CHARS)}…` : text;
}

function toText(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}
