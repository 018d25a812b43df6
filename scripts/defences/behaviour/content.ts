/** Content blocks, failures and progress of tool calls, from the door to the model, watchers and clients. */
import type { Mutant } from "../mutant.ts";

const FAILURE = "packages/contract/src/plugins/tool-failure.ts";
const CONTEXT = "packages/session/src/sessions/context.ts";
const BLOCKS = "packages/session/src/sessions/blocks.ts";
const BLOCKS_TESTS = ["packages/session/test/sessions/blocks.test.ts"];
const OUTCOME = "packages/session/src/tape/tool-outcome.ts";
const TURN_TAPE = "packages/session/src/tape/turn-tape.ts";
const OUTCOME_TESTS = ["packages/session/test/tape/tool-outcome.test.ts"];

export const CONTENT_MUTANTS: Mutant[] = [
  {
    defence: "content: attachments are blocks of their message",
    file: BLOCKS,
    from: 'kind === "input" ? attachmentBlocksOf(payload.attachments) : []',
    to: "attachmentBlocksOf(undefined)",
    tests: BLOCKS_TESTS,
  },
  {
    defence: "content: an attachment is restored as it was sent",
    file: BLOCKS,
    from: "attachments.push(attachment === true ? block : toUntyped(block as ContentBlock));",
    to: "attachments.push(block);",
    tests: BLOCKS_TESTS,
  },
  {
    defence: "content: attachments count towards the window",
    file: CONTEXT,
    from: "this.#chars += contentChars(attachments.filter(isObject).map(attachmentToBlock));",
    to: "void attachmentToBlock;",
    tests: ["packages/session/test/sessions/context.test.ts"],
  },
  {
    defence: "content: large attachments do not fill the request of a compactor",
    file: "packages/session/src/compaction/projected-content.ts",
    from: "base64.length <= CONTENT_LIMITS.inline_chars ||",
    to: "base64.length > 0 ||",
    tests: ["packages/session/test/compaction/projected-content.test.ts"],
  },
  {
    defence: "content: an author's error is not a crash",
    file: FAILURE,
    from: 'code === "plugin_retryable") return "failed";',
    to: 'code === "plugin_retryable") return "crashed";',
    tests: ["packages/contract/test/plugins/tool-failure.test.ts"],
  },
  {
    defence: "content: a refusal is not a fault of the gateway",
    file: FAILURE,
    from: 'if (family !== "refusal") return "internal";',
    to: 'return "internal";',
    tests: ["packages/contract/test/plugins/tool-failure.test.ts"],
  },
  {
    defence: "content: the stderr excerpt is bounded",
    file: FAILURE,
    from: "if (clean.length <= FAILURE_LIMITS.stderr_chars) return clean;",
    to: "return clean;",
    tests: ["packages/contract/test/plugins/tool-failure.test.ts"],
  },
  {
    defence: "content: the model reads why a call failed",
    file: CONTEXT,
    from: 'if (note !== "") content.push',
    to: "if (false) content.push",
    tests: ["packages/session/test/sessions/context.test.ts"],
  },
  {
    defence: "content: the tape keeps every block",
    file: OUTCOME,
    from: "payload.content = content;",
    to: "payload.content = content.slice(0, 1);",
    tests: OUTCOME_TESTS,
  },
  {
    defence: "content: the size of an image is estimated",
    file: CONTEXT,
    from: "isContent(value) ? contentChars(value) : JSON.stringify(value).length",
    to: "JSON.stringify(value).length",
    tests: ["packages/session/test/sessions/context.test.ts"],
  },
  {
    defence: "content: large data is stored as an artifact",
    file: "packages/door/src/invoke/store-content.ts",
    from: "base64.length <= CONTENT_LIMITS.inline_chars ||",
    to: "",
    tests: ["packages/door/test/invoke/store-content.test.ts"],
  },
  {
    defence: "content: a reference that no runner checked opens no file",
    file: "packages/door/src/invoke/store-content.ts",
    from: 'references_checked ? { ...block, invocation_id } : omittedBlock(block, "its file was not checked")',
    to: "{ ...block, invocation_id }",
    tests: ["packages/door/test/invoke/store-content.test.ts"],
  },
  {
    defence: "content: a model gets images only in formats that vendors read",
    file: "packages/sdk/src/kernel/llm-content.ts",
    from: "if (media_type === undefined ||",
    to: "if (",
    tests: ["packages/sdk/test/kernel/llm-content.test.ts"],
  },
  {
    defence: "content: a model gets no file that its call does not refer to",
    file: "packages/door/src/invoke/store-content.ts",
    from: "return is_referenced ? await artifacts.open(sha256) : null;",
    to: "return await artifacts.open(sha256);",
    tests: ["packages/agent/test/models/load-content.test.ts"],
  },
  {
    defence: "content: chat completions show the images of results",
    file: "plugins/llm-openai/src/chat-messages.ts",
    from: "media.push(...mediaIn(message, accepted))",
    to: "media.push()",
    tests: ["plugins/llm-openai/test/chat.test.ts"],
    only: "mentions the images",
  },
  {
    defence: "content: a file that is not a PDF is described",
    file: "packages/sdk/src/kernel/llm-content.ts",
    from: 'accepted.has("document") && data.startsWith(PDF_START)',
    to: 'accepted.has("document") && data.length > 0',
    tests: ["packages/sdk/test/kernel/llm-content.test.ts"],
  },
  {
    defence: "content: a PDF is described to a model that does not accept it",
    file: "packages/sdk/src/kernel/llm-content.ts",
    from: 'accepted.has("document") && data.startsWith(PDF_START)',
    to: "data.startsWith(PDF_START)",
    tests: ["packages/sdk/test/kernel/llm-content.test.ts"],
  },
  {
    defence: "content: an MCP client gets the bytes of stored blocks",
    file: "packages/api/src/mcp/calls/call-result.ts",
    from: "data === null ? block : withInlineData(block, data)",
    to: "block",
    tests: ["packages/api/test/mcp/calls/call-result.test.ts"],
  },
  {
    defence: "content: an error keeps the blocks of its author",
    file: "packages/api/src/mcp/calls/call-result.ts",
    from: "const content = await toContentBlocks(blocks, openFile);",
    to: "const content = error === null ? await toContentBlocks(blocks, openFile) : [];",
    tests: ["packages/api/test/mcp/calls/call-result.test.ts"],
  },
  {
    defence: "progress: a tool that does not stream is not shown live",
    file: TURN_TAPE,
    from: "streaming ? publish : null",
    to: "publish",
    tests: ["packages/agent/test/loop/tool-progress.test.ts"],
  },
  {
    defence: "progress: the tape keeps the last status and output",
    file: OUTCOME,
    from: "if (progress !== undefined) payload.progress = { ...progress };",
    to: "",
    tests: ["packages/agent/test/loop/tool-progress.test.ts"],
  },
  {
    defence: "progress: the output on the tape is bounded",
    file: "packages/session/src/tape/call-progress.ts",
    from: "text.slice(-OUTPUT_CHARS).toWellFormed()",
    to: "text.toWellFormed()",
    tests: ["packages/session/test/tape/call-progress.test.ts"],
  },
  {
    defence: "content: a compactor can return the references that it got",
    file: "packages/agent/src/compaction/projected-content.ts",
    from: "{ ...block, text, transport: STORED }",
    to: "{ ...block, text }",
    tests: ["packages/agent/test/compaction/projected-content.test.ts"],
  },
  {
    defence: "content: the digest of a model call does not depend on loaded data",
    file: "packages/session/src/sessions/taped-entry.ts",
    from: 'if (key === "data" && isArtifact(this as Json)) return undefined;',
    to: "",
    tests: ["packages/session/test/sessions/taped-entry.test.ts"],
  },
  {
    defence: "progress: watchers get at most ten updates per second",
    file: "packages/session/src/tape/call-progress.ts",
    from: "const INTERVAL_MS = 100;",
    to: "const INTERVAL_MS = 1;",
    tests: ["packages/session/test/tape/call-progress.test.ts"],
    only: "ten updates in a second",
  },
  {
    defence: "progress: a full session queue gets at most ten updates per second",
    file: "packages/session/src/tape/call-progress.ts",
    from: "else this.#timer = this.#clock.after(INTERVAL_MS, () => this.#send());",
    to: "else this.#timer = this.#clock.after(1, () => this.#send());",
    tests: ["packages/session/test/tape/call-progress.test.ts"],
    only: "ten updates in a second",
  },
];
