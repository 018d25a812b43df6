import { hash } from "node:crypto";
import type { ContentBlock } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const SMALL = Buffer.alloc(100, 1).toString("base64");
const LARGE = Buffer.alloc(20_000, 2);
const SHA256 = hash("sha256", LARGE, "hex");

async function createArtifactKernel(store?: () => Promise<void>) {
  const files = new Map<string, Uint8Array>();
  const artifacts = {
    store: store ?? (async (sha256: string, bytes: Uint8Array) => void files.set(sha256, bytes)),
    open: async (sha256: string) => {
      const bytes = files.get(sha256);
      return (
        bytes && {
          bytes: bytes.length,
          content: (async function* () {
            yield bytes;
          })(),
        }
      );
    },
    sweep: async () => 0,
  } as never;
  const fixture = await createTestKernel({ artifacts });
  await fixture.bind(manifest([toolExport("draw")]));
  const call = async (content: ContentBlock[], more = {}) => {
    fixture.runner.script = async () => ok({ content, ...more } as never);
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "draw", input: {} });
    return await ticket.settled;
  };
  return { ...fixture, call, files };
}

verifies("content.blocks", "records every block of a result, with large data as an artifact", async () => {
  const { call, kernel } = await createArtifactKernel();
  const text = { type: "text", text: "two charts" };
  const resource = { uri: "file:///a.pdf", mimeType: "application/pdf", blob: LARGE.toString("base64") };
  const invocation = await call(
    [
      text,
      { type: "image", data: SMALL, mime_type: "image/png" },
      { type: "image", data: LARGE.toString("base64"), mimeType: "image/png" },
      { type: "resource", resource },
      { type: "resource_link", uri: "https://a.example/", name: "A" },
    ],
    { structured_output: { charts: 2 } },
  );
  const reference = {
    transport: "artifact",
    bytes: LARGE.length,
    sha256: SHA256,
    invocation_id: invocation.id,
  };
  expect(invocation.tool_result).toMatchObject({
    content: [
      text,
      { type: "image", data: SMALL, mimeType: "image/png" },
      { type: "image", mimeType: "image/png", path: "block-3.png", ...reference },
      { type: "resource", resource: { uri: "file:///a.pdf", mimeType: "application/pdf" }, ...reference },
      { type: "resource_link", uri: "https://a.example/", name: "A" },
    ],
    structured_output: { charts: 2 },
  });
  expect(JSON.stringify(invocation.tool_result)).not.toContain(resource.blob);
  const file = await kernel.invocations.openArtifact(user, invocation.id, SHA256);
  expect(file.bytes).toBe(LARGE.length);
});

verifies("content.blocks", "substitutes a text block for a reference that no runner checked", async () => {
  const { call, files, kernel } = await createArtifactKernel();
  files.set(SHA256, LARGE);
  const forged = {
    type: "image",
    transport: "artifact",
    path: "x",
    bytes: 1,
    sha256: SHA256,
    invocation_id: "inv_other",
  };
  const invocation = await call([forged], { structured_output: { ...forged } });
  expect(invocation.tool_result?.content).toEqual([
    { type: "text", text: expect.stringContaining("[left out: its file was not checked]") },
  ]);
  await expect(kernel.invocations.openArtifact(user, invocation.id, SHA256)).rejects.toMatchObject({
    code: "artifact.not_found",
  });
});

verifies(
  "content.blocks",
  "substitutes a text block that gives the reason for data that could not be stored",
  async () => {
    const { call } = await createArtifactKernel(async () => {
      throw new Error("disk full");
    });
    const image = (data: string) => ({ type: "image", data, mimeType: "image/png" });
    const failed = await call([image(LARGE.toString("base64")), image(`?${"!".repeat(20_000)}`)]);
    expect(failed.status).toBe("succeeded");
    expect(failed.tool_result?.content.map(({ text }) => text)).toEqual([
      expect.stringContaining("[left out: it could not be stored]"),
      expect.stringContaining("[left out: its data is not base64]"),
    ]);
  },
);
