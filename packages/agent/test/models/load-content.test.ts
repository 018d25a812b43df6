import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createContentLoader } from "../../src/models/load-content.ts";

const scope = { org_id: "org_local", project_id: null };
const BYTES = Buffer.alloc(1_000, 3);
const SHA256 = hash("sha256", BYTES, "hex");

function imageBlock(invocation_id: string, bytes = BYTES.length) {
  return {
    type: "image",
    mimeType: "image/png",
    transport: "artifact",
    path: "a.png",
    bytes,
    sha256: SHA256,
    invocation_id,
  };
}

const PDF_BLOCK = {
  type: "resource",
  resource: { uri: "file:///a.pdf", mimeType: "application/pdf" },
  transport: "artifact",
  path: "a.pdf",
  bytes: BYTES.length,
  sha256: SHA256,
  invocation_id: "inv_1",
};
const AUDIO_BLOCK = { ...imageBlock("inv_1"), type: "audio", mimeType: "audio/wav", path: "a.wav" };

function createLoader(file_bytes = BYTES.length) {
  const opened: string[] = [];
  const load = createContentLoader({
    store: {
      invocations: {
        get: async (_scope: unknown, id: string) =>
          id === "inv_other"
            ? null
            : { id, result: null, grant: null, tool_result: { content: [imageBlock("inv_1")] } },
      },
    },
    artifacts: {
      open: async (sha256: string) => {
        opened.push(sha256);
        return {
          bytes: file_bytes,
          content: (async function* () {
            yield BYTES;
          })(),
        };
      },
    },
    log: { warn() {} },
  } as never);
  return {
    load: async (...messages: object[]) => (await load(scope, messages)) as { content: unknown }[],
    opened,
  };
}

verifies("content.blocks", "loads the stored images of results for the model", async () => {
  const { load } = createLoader();
  const text = { type: "text", text: "a chart" };
  const user = { role: "user", content: "draw" };
  const [first, second] = await load(user, {
    role: "tool",
    tool_call_id: "c",
    content: [text, imageBlock("inv_1")],
  });
  expect(first).toBe(user);
  expect(second).toEqual({
    role: "tool",
    tool_call_id: "c",
    content: [text, { ...imageBlock("inv_1"), data: BYTES.toString("base64") }],
  });
});

verifies("content.blocks", "loads stored PDFs and audio, and no other files", async () => {
  const { load } = createLoader();
  const data = BYTES.toString("base64");
  const other = { ...PDF_BLOCK, resource: { uri: "file:///a.zip", mimeType: "application/zip" } };
  const [message] = await load({ role: "tool", content: [PDF_BLOCK, AUDIO_BLOCK, other] });
  expect(message!.content).toEqual([
    { ...PDF_BLOCK, resource: { ...PDF_BLOCK.resource, blob: data } },
    { ...AUDIO_BLOCK, data },
    other,
  ]);
});

verifies("content.blocks", "loads only files that belong to the call in the reference", async () => {
  const { load, opened } = createLoader();
  for (const id of ["inv_other", "inv_2"]) {
    const block = imageBlock(id);
    expect((await load({ role: "tool", content: [block] }))[0]!.content).toEqual([block]);
  }
  expect(opened).toEqual([]);
});

test("leaves images over the budget as references, the oldest first, and files over the size limit", async () => {
  const { load, opened } = createLoader();
  const block = { ...imageBlock("inv_1"), bytes: 3_000_000 };
  const messages = await load({ content: [block] }, { content: [block] });
  expect(messages.map(({ content }) => "data" in (content as object[])[0]!)).toEqual([false, true]);
  const large = createLoader(5_000_000);
  expect((await large.load({ content: [imageBlock("inv_1")] }))[0]!.content).toEqual([imageBlock("inv_1")]);
  expect(opened).toHaveLength(1);
});
