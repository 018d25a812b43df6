import type { Invocation } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import {
  invocationResultText,
  refusedLines,
  scratchHint,
} from "../../../src/commands/call/invocation-text.ts";

type Entry = NonNullable<Invocation["egress"]>["refusals"][number];

const refusal = (host: string, port: number, reason: string, more: Partial<Entry> = {}): Entry => ({
  host,
  port,
  reason,
  message: "Refused.",
  at: "2026-01-01T00:00:00.000Z",
  ...more,
});

function linesFor(refusals: Entry[], allowed_domains: string[] = [], refused = refusals.length): string[] {
  const grant = { network: "egress", allowed_domains };
  return refusedLines({
    binding_id: "bind_1",
    grant,
    egress: { refused, refusals },
  } as unknown as Invocation);
}

test("suggests the command that allows the refused host names", () => {
  const refusals = [refusal("a.test", 53, "direct.lookup"), refusal("b.test", 8443, "domain.not_allowed")];
  expect(linesFor(refusals, ["c.test"])).toEqual([
    "a.test:53 direct.lookup: Refused.",
    "b.test:8443 domain.not_allowed: Refused.",
    "To allow them: backplane binding set bind_1 --domains c.test,a.test,b.test:8443",
  ]);
});

test("explains that a host name allowed only by a wildcard needs the proxy", () => {
  expect(linesFor([refusal("x.cdn.test", 53, "direct.lookup")], ["*.cdn.test"]).at(-1)).toBe(
    "Allowed, but only for programs that use the proxy (HTTP_PROXY): x.cdn.test",
  );
});

test("suggests the operator's setting and the domains of the binding for IPv4 addresses, and nothing for IPv6", () => {
  const refusals = [refusal("10.0.0.5", 5432, "direct.connection", { count: 3 })];
  expect(linesFor(refusals, [], 5)).toEqual([
    "10.0.0.5:5432 direct.connection: Refused. (3 times)",
    "and 2 more",
    'The operator must add ["10.0.0.5:5432"] to egress.allow_private in backplane.toml, then backplane binding set bind_1 --domains 10.0.0.5:5432',
  ]);
  expect(linesFor([refusal("fd00::5", 80, "direct.connection")])).toEqual([
    "[fd00::5]:80 direct.connection: Refused.",
  ]);
});

test("explains how to request /tmp when a write to it failed without a scratch folder", () => {
  const hintFor = (message: string, filesystem = "none") =>
    scratchHint({ error: { message }, tool_result: null, grant: { filesystem } } as unknown as Invocation);
  const missing = "ENOENT: no such file or directory, open '/tmp/x'";
  expect(hintFor(missing)).toContain('filesystem = "scratch"');
  expect(hintFor("[Errno 2] No such file or directory: '/tmp/x'")).toContain("scratch");
  expect(hintFor("sh: /tmp/x: No such file or directory")).toContain("scratch");
  expect(hintFor(missing, "scratch")).toBeNull();
  expect(hintFor("ENOENT: no such file or directory, open '/data/tmp'")).toBeNull();
});

verifies(
  "content.blocks",
  "describes blocks that a terminal cannot show, with the command that saves them",
  () => {
    const sha256 = "ab".repeat(32);
    const content = [
      { type: "text", text: "a chart" },
      {
        type: "image",
        mimeType: "image/png",
        transport: "artifact",
        path: "block-2.png",
        bytes: 9,
        sha256,
        invocation_id: "inv_1",
      },
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
    ];
    expect(invocationResultText({ id: "inv_1", tool_result: { content } } as unknown as Invocation)).toBe(
      [
        "a chart",
        `[image: block-2.png, image/png, 9 bytes, stored as artifact ${sha256} of invocation inv_1]`,
        `  backplane invocation artifact inv_1 ${sha256} --output block-2.png`,
        "[audio: audio/wav, 3 bytes]",
      ].join("\n"),
    );
  },
);
