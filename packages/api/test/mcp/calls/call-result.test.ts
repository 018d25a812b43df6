import { BackplaneError, type ContentBlock, type Invocation } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { buildCallResult, type OpenFile } from "../../../src/mcp/calls/call-result.ts";

const FILE = Buffer.from("stored bytes");
const openFile: OpenFile = async (id, sha256) => {
  if (id !== "inv_1" || sha256 !== "ab") throw new BackplaneError("artifact.not_found");
  return {
    bytes: FILE.length,
    content: (async function* () {
      yield FILE.subarray(0, 3);
      yield FILE.subarray(3);
    })(),
  };
};
const reference = {
  transport: "artifact",
  path: "block-1.png",
  bytes: FILE.length,
  sha256: "ab",
  invocation_id: "inv_1",
};

function invocationWith(
  content: ContentBlock[],
  more: object = {},
  error: Invocation["error"] = null,
): Invocation {
  return {
    id: "inv_1",
    error,
    tool_result: { content, is_error: error !== null, ...more },
  } as unknown as Invocation;
}

verifies(
  "content.blocks",
  "passes on blocks of known types with their stored data, and describes all others",
  async () => {
    const text = { type: "text", text: "two charts" };
    const resource = { uri: "file:///a.pdf", mimeType: "application/pdf" };
    const result = await buildCallResult(
      invocationWith(
        [
          text,
          { type: "image", mimeType: "image/png", ...reference },
          { type: "audio", data: "AAAA", mimeType: "audio/wav" },
          { type: "resource", resource, ...reference },
          { type: "resource_link", uri: "https://a.example/", name: "A" },
          { type: "file", ...reference },
          { type: "chart", points: [1] },
        ],
        { structured_output: { charts: 2 } },
      ),
      openFile,
    );
    const data = FILE.toString("base64");
    expect(result).toMatchObject({ structuredContent: { charts: 2 }, isError: false });
    expect(result.content).toEqual([
      text,
      { type: "image", mimeType: "image/png", data },
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      { type: "resource", resource: { ...resource, blob: data } },
      { type: "resource_link", uri: "https://a.example/", name: "A" },
      { type: "text", text: expect.stringContaining("[file: block-1.png") },
      { type: "text", text: '{"type":"chart","points":[1]}' },
    ]);
  },
);

test("describes stored data that is missing or over the limit", async () => {
  const missing = { type: "image", mimeType: "image/png", ...reference, sha256: "cd" };
  const large = { type: "image", mimeType: "image/png", ...reference, bytes: 5_000_000 };
  const { content } = await buildCallResult(invocationWith([missing, large]), openFile);
  expect(content).toEqual([
    { type: "text", text: expect.stringContaining("stored as artifact cd") },
    { type: "text", text: expect.stringContaining("5000000 bytes") },
  ]);
});

verifies(
  "content.errors",
  "keeps the blocks that a tool returned with an error and adds code and stderr",
  async () => {
    const failure = {
      kind: "failed",
      code: "plugin_failed",
      plugin_code: "E_CONN",
      retryable: true,
      stderr: "refused",
    };
    const shot = { type: "image", data: "AAAA", mimeType: "image/png" };
    const text = { type: "text", text: "no connection" };
    const error = { code: "plugin_failed", message: "no connection" };
    const without_failure = await buildCallResult(invocationWith([shot], {}, error), openFile);
    expect(without_failure.content).toEqual([text, shot]);
    expect(await buildCallResult(invocationWith([text, shot], { failure }, error), openFile)).toEqual({
      content: [
        text,
        shot,
        { type: "text", text: "[error: plugin_failed (E_CONN). A retry may succeed.]\n[stderr]\nrefused" },
      ],
      isError: true,
      _meta: {
        "backplane/invocation_id": "inv_1",
        "backplane/error": {
          code: "plugin_failed",
          plugin_code: "E_CONN",
          retryable: true,
          stderr: "refused",
        },
      },
    });
  },
);
