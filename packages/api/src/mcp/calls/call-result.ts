/**
 * An ended invocation as a `tools/call` result. A failure of the tool and a denial by a person or the policy are
 * results with `isError`, so that the model sees them; a call to an unknown tool is a protocol error.
 */
import {
  type BackplaneError,
  type ContentBlock,
  codeOf,
  definedFields,
  describeContent,
  ERROR_CODES,
  failureNote,
  type Invocation,
  inlineDataOf,
  isArtifact,
  isErrorCode,
  isObject,
  type Json,
  type JsonObject,
  MCP_ERRORS,
  MCP_LIMITS,
  withInlineData,
} from "@backplane/contract";
import { McpError } from "../protocol/json-rpc.ts";

const INVOCATION_META = "backplane/invocation_id";
const ERROR_META = "backplane/error";
/** Errors of a server that are meant for the client's program and not for its model. */
const CLIENT_ERRORS: ReadonlySet<number> = new Set([
  MCP_ERRORS.missing_capability,
  MCP_ERRORS.url_elicitation_required,
]);

/** Opens a file that the call refers to. Rejects if it is no longer stored. */
export type OpenFile = (
  invocation_id: string,
  sha256: string,
) => Promise<{ bytes: number; content: AsyncIterable<Uint8Array> }>;

/** Throws an McpError for an error that is meant for the client's program. */
export async function buildCallResult(
  { id, error, tool_result }: Invocation,
  openFile: OpenFile,
): Promise<JsonObject> {
  const code = Number(error?.details?.plugin_code);
  if (error !== null && CLIENT_ERRORS.has(code)) throw new McpError(code, error.message, error.details?.data);
  const _meta: JsonObject = { [INVOCATION_META]: id };
  const { content: blocks = [], structured_output, is_error, failure } = tool_result ?? {};
  const structured = toStructuredContent(structured_output);
  const content = await toContentBlocks(blocks, openFile);
  // A tool can return blocks that do not contain the message of its failure.
  if (error !== null && !content.some(({ text }) => typeof text === "string" && text.includes(error.message)))
    content.unshift({ type: "text", text: error.message });
  // Clients without support for structured content read the text.
  if (content.length === 0 && structured !== undefined)
    content.push({ type: "text", text: JSON.stringify(structured) });
  if (failure !== undefined) {
    const { kind: _kind, ...known } = failure;
    const fix = error?.details?.fix;
    _meta[ERROR_META] = {
      ...definedFields(known),
      ...(typeof fix === "string" ? { fix } : {}),
    } as JsonObject;
    const note = failureNote(failure);
    if (note !== "") content.push({ type: "text", text: note });
  }
  return {
    content,
    ...(structured === undefined ? {} : { structuredContent: structured }),
    isError: error !== null || is_error === true,
    _meta,
  };
}

/**
 * The result for a call that the door refused. Null if the model cannot act on the refusal; the request then fails with
 * it.
 */
export function refusalResult(error: BackplaneError): JsonObject | null {
  if (!isErrorCode(error.code) || !RESULT_FAMILIES.some((family) => error.code.startsWith(family)))
    return null;
  const spec = ERROR_CODES[error.code];
  const invocation_id = error.details?.invocation_id;
  const fix = error.fix ?? spec.remedy;
  return {
    content: [{ type: "text", text: `${error.message}${formatIssues(error.details?.issues)}` }],
    isError: true,
    _meta: {
      ...(typeof invocation_id === "string" ? { [INVOCATION_META]: invocation_id } : {}),
      [ERROR_META]: { code: error.code, retryable: error.retryable ?? spec.retryable, fix },
    },
  };
}

const RESULT_FAMILIES = [
  "input.",
  "policy.",
  "approval.",
  "sandbox.",
  "binding.",
  "class.",
  "invocation.",
  "grant.",
];

/** An error of the gateway itself as a JSON-RPC error. */
export function gatewayError(error: BackplaneError): McpError {
  const code = error.code === "internal" ? MCP_ERRORS.internal_error : MCP_ERRORS.refused;
  const { retryable } = ERROR_CODES[error.code];
  const message = error.code === "internal" ? ERROR_CODES.internal.description : error.message;
  return new McpError(code, message, { code: error.code, retryable: error.retryable ?? retryable });
}

function formatIssues(issues: unknown): string {
  if (!Array.isArray(issues)) return "";
  // The message already contains the first issue.
  const lines = issues
    .slice(1)
    .flatMap((issue: unknown) =>
      isObject(issue) && typeof issue.message === "string"
        ? [
            `\n${typeof issue.path === "string" && issue.path !== "" ? issue.path : "the input"}: ${issue.message}`,
          ]
        : [],
    );
  return lines.slice(0, 20).join("");
}

/** The envelope of a kernel tool repeats the content; only its JSON data is structured content. */
function toStructuredContent(value: Json | undefined): JsonObject | undefined {
  if (!isObject(value)) return undefined;
  if (typeof value.ok !== "boolean" || typeof value.brief !== "string" || !isObject(value.display))
    return value;
  const { kind, data } = value.display;
  return kind === "json" && isObject(data) ? data : undefined;
}

/**
 * Converts the blocks to the block types of MCP. Stored data is put back into its block, because an MCP client has no
 * other way to read it; beyond the limit the block becomes a text block that describes it.
 */
async function toContentBlocks(blocks: readonly ContentBlock[], openFile: OpenFile): Promise<JsonObject[]> {
  const content: JsonObject[] = [];
  let remaining: number = MCP_LIMITS.output_bytes;
  for (const block of blocks) {
    const bytes = Number(block.bytes);
    // A block of type file is only described; the part that a client can show is a separate block.
    const stored = isArtifact(block) && block.type !== "file";
    const data = stored && bytes <= remaining ? await readStored(block, openFile) : null;
    if (data !== null) remaining -= bytes;
    content.push(toProtocolBlock(data === null ? block : withInlineData(block, data)));
  }
  return content;
}

async function readStored(block: ContentBlock, openFile: OpenFile): Promise<string | null> {
  const { invocation_id, sha256 } = block;
  if (typeof invocation_id !== "string" || typeof sha256 !== "string") return null;
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of (await openFile(invocation_id, sha256)).content) chunks.push(chunk);
    return Buffer.concat(chunks).toString("base64");
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    return null;
  }
}

function toProtocolBlock(block: ContentBlock): JsonObject {
  const { type, resource } = block;
  const known =
    (type === "text" && typeof block.text === "string") ||
    ((type === "image" || type === "audio") && inlineDataOf(block) !== null) ||
    (type === "resource" &&
      isObject(resource) &&
      typeof resource.uri === "string" &&
      hasContents(resource)) ||
    (type === "resource_link" && typeof block.uri === "string" && typeof block.name === "string");
  return known ? block : { type: "text", text: describeContent(block) };
}

function hasContents({ text, blob }: JsonObject): boolean {
  return typeof text === "string" || typeof blob === "string";
}
