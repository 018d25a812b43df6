import { expect, test } from "vitest";
import { serverHints } from "../../src/bindings/server-hints.ts";

test("explains how to set the credential that a server's message mentions", () => {
  const message = "Error: A key is required via --brave-api-key, BRAVE_API_KEY or a file";
  expect(serverHints(message, "bind_1")).toEqual([
    "To set BRAVE_API_KEY: backplane secret set brave_api_key, then backplane binding set bind_1 --secret brave_api_key=brave_api_key",
  ]);
});

test("explains where a server can write if it fails to write into its package", () => {
  const message = "EROFS: read-only file system, open '/plugin/node_modules/memory/dist/memory.jsonl'";
  expect(serverHints(message, "bind_1")[1]).toContain(
    "backplane binding set bind_1 --mount /FOLDER:/data:rw",
  );
});

test("suggests the usual argument for a server that starts a listener", () => {
  const message = "acme/x did not answer within 30000 ms. Last line on stderr: Server listening on port 3333";
  expect(serverHints(message, "bind_1")).toEqual([
    "The server may expect HTTP requests. Many servers have an argument for stdio: backplane binding set bind_1 -- --stdio",
  ]);
});

test("returns no hints for other messages", () => {
  const refused =
    "did not answer within 30000 ms. From stderr: Error: Proxy response (403) when HTTP Tunneling";
  expect(serverHints(`${refused}: https://mcp.example.com:443 (the grant allows no port)`, "bind_1")).toEqual(
    [],
  );
  expect(serverHints("fetch failed: HTTP_STATUS 500, KEY missing", "bind_1")).toEqual([]);
});
