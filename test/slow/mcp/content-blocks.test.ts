/** The blocks of an MCP server's results over HTTP, on the command line, for an MCP client and on the chat page. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect } from "vitest";
import { sendAndWait, sessionOf } from "../../support/browser/chat.ts";
import { useChatPage } from "../../support/browser/chat-page.ts";
import { bindMcpServer } from "../../support/mcp/mcp-server.ts";
import { verifies } from "../../support/verifies.ts";

const chat = useChatPage();
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-painter-"));
  const program = readFileSync(resolve("test/fixtures/painter/server.mjs"), "utf8");
  await chat.gateway.cli("policy", "set", "tolerance.conversation", "full");
  await bindMcpServer(chat.gateway, folder, "painter", { program });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface ShownBlock {
  type: string;
  text?: string;
  sha256?: string;
  mimeType?: string;
}

const REST = [
  { type: "audio", mimeType: "audio/wav", data: expect.any(String) },
  { type: "resource", resource: { uri: "file:///notes.md", mimeType: "text/markdown", text: "# Notes" } },
  { type: "resource_link", uri: "https://gallery.example/1", name: "The gallery" },
];
const TEXT = { type: "text", text: "A picture of stripes." };
const STRUCTURED = { width: 320, height: 160 };

verifies(
  "content.blocks",
  "returns every block over HTTP, on the command line and to an MCP client",
  async () => {
    const { gateway } = chat;
    const { body } = await gateway.http<{
      id: string;
      tool_result: { content: ShownBlock[]; structured_output: object };
    }>("POST", "/v1/invocations?wait=30", { export_id: "mcp_painter_draw", input: {} });
    const image = body.tool_result.content[1]!;
    const stored = { transport: "artifact", bytes: expect.any(Number), invocation_id: body.id };
    expect(body.tool_result.content).toMatchObject([
      TEXT,
      { type: "image", mimeType: "image/png", ...stored },
      ...REST,
    ]);
    expect(body.tool_result.structured_output).toEqual(STRUCTURED);
    const path = `/v1/invocations/${body.id}/artifacts/${image.sha256}`;
    const file = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${gateway.token}` } });
    const bytes = Buffer.from(await file.arrayBuffer());
    expect(bytes.subarray(1, 4).toString()).toBe("PNG");

    const printed = await gateway.cli("invoke", "mcp_painter_draw");
    expect(printed.code).toBe(0);
    expect(printed.stdout).toContain("A picture of stripes.\n[image: block-2.png, image/png, ");
    expect(printed.stdout).toMatch(
      /backplane invocation artifact inv_\w+ [0-9a-f]{64} --output block-2\.png/,
    );
    expect(printed.stdout).toContain("[resource link: The gallery, https://gallery.example/1]");

    const client = new Client({ name: "test", version: "1.0.0" });
    const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${gateway.token}` } },
    });
    await client.connect(transport);
    const result = await client.callTool({ name: "mcp_painter_draw", arguments: {} });
    expect(result.content).toMatchObject([
      TEXT,
      { type: "image", mimeType: "image/png", data: bytes.toString("base64") },
      ...REST,
    ]);
    expect(result.structuredContent).toEqual(STRUCTURED);
    await client.close();
  },
  60_000,
);

verifies(
  ["content.blocks", "content.progress", "content.errors"],
  "shows images, audio, links and errors on the chat page, which also receives the progress",
  async () => {
    const { gateway } = chat;
    const { page, problems } = await chat.openSignedIn();
    const progress: object[] = [];
    page.on("websocket", (socket) =>
      socket.on("framereceived", ({ payload }) => {
        const { event } = JSON.parse(String(payload)) as { event?: { kind: string; payload: object } };
        if (event?.kind === "x.loop.tool.progress") progress.push(event.payload);
      }),
    );
    await page.reload();
    await page.waitForSelector('#chip[data-state="live"]');
    await sendAndWait(page, "/tool mcp_painter_draw {}");
    const image = page.locator(".tool img");
    await image.waitFor();
    await expect
      .poll(() => image.evaluate((node) => (node as never as { naturalWidth: number }).naturalWidth))
      .toBe(320);
    expect(await page.locator(".tool audio").getAttribute("src")).toMatch(/^blob:/);
    await page.locator(".tool summary").first().click();
    expect(await page.locator(".tool details a").getAttribute("href")).toBe("https://gallery.example/1");
    expect(progress).toMatchObject([{ type: "progress", status: "mixing colors", progress: 1, total: 2 }]);

    await sendAndWait(page, "/tool mcp_painter_refuse {}");
    const refused = page.locator(".tool.error");
    expect(await refused.locator(".status").first().textContent()).toBe("reported an error");
    await refused.locator("summary").click();
    expect(await refused.textContent()).toContain("the canvas is locked");
    expect(await refused.textContent()).toContain("cannot reach the canvas");
    expect(problems).toEqual([]);

    const session = sessionOf(page);
    const { body } = await gateway.http<{ head_chain_id: string }>(
      "GET",
      `/v1/sessions/${encodeURIComponent(session)}`,
    );
    const { body: blocks } = await gateway.http<{ items: { kind: string; content: ShownBlock[] }[] }>(
      "GET",
      `/v1/chains/${body.head_chain_id}/blocks?limit=100`,
    );
    const [drawn, error] = blocks.items.filter(({ kind }) => kind === "tool_result");
    expect(drawn).toMatchObject({
      content: [TEXT, { type: "image" }, ...REST],
      structured_output: STRUCTURED,
    });
    expect(error).toMatchObject({ is_error: true, failure: { kind: "failed", code: "plugin_failed" } });
  },
  60_000,
);
