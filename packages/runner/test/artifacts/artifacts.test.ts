import { hash } from "node:crypto";
import type { JsonObject } from "@backplane/contract";
import type { ArtifactFiles } from "@backplane/ports";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { side, vai } from "../support/request.ts";
import { createTestRunner, type TestRunner } from "../support/runner.ts";

const BYTES = "the bytes";
const SHA256 = hash("sha256", BYTES, "hex");
const grant = { filesystem: "scratch" as const };

/** Keeps artifacts in memory, by hash. */
function createMemoryStore(): ArtifactFiles & { stored: Map<string, Uint8Array> } {
  const stored = new Map<string, Uint8Array>();
  return {
    stored,
    store: async (sha256, bytes) => void stored.set(sha256, bytes),
    open: async () => null,
    sweep: async () => 0,
  };
}

const RUNNERS = {
  isolated: (artifacts: ArtifactFiles) => ({
    test_runner: createConfinedTestRunner({ artifacts, limits: LIMITS }),
    class: "isolated" as const,
  }),
  "worker in a sandbox": (artifacts: ArtifactFiles) => ({
    test_runner: createConfinedTestRunner({ artifacts, limits: LIMITS }),
    class: "worker" as const,
  }),
  "plain worker": (artifacts: ArtifactFiles) => ({
    test_runner: createTestRunner({ artifacts, limits: LIMITS }),
    class: "worker" as const,
  }),
} as const;
const LIMITS = { artifact_bytes: 1_000_000, inline_bytes: 10_000 };

describe.each(Object.entries(RUNNERS))("%s", (_name, createRunner) => {
  function createArtifactRunner() {
    const store = createMemoryStore();
    const created = createRunner(store);
    const runArtifact = (
      input: object,
      change: Parameters<typeof vai>[1] = {},
    ): ReturnType<TestRunner["run"]> =>
      created.test_runner.run(
        vai("artifact", { class: created.class, grant, input: input as never, ...change }),
      );
    return { ...created, runArtifact, stored: store.stored };
  }

  verifies("inv.artifacts", "stores a scratch file that an answer refers to", async () => {
    const { runArtifact, stored } = createArtifactRunner();
    for (const [file_kind, path] of [
      ["file", "made"],
      ["deep", "a/b/made"],
    ]) {
      const { status, result, violations } = await runArtifact({
        file_kind,
        reference: { path, sha256: SHA256 },
      });
      expect({ status, violations }).toEqual({ status: "succeeded", violations: 0 });
      expect(result).toEqual({
        content: [{ type: "file", transport: "artifact", path, bytes: BYTES.length, sha256: SHA256 }],
        structured_output: { list: [1, 2] },
      });
    }
    expect([...stored]).toEqual([[SHA256, Buffer.from(BYTES)]]);
  });

  verifies(
    "inv.artifacts",
    "refuses a reference to a path outside scratch or to anything but a regular file",
    async () => {
      const { runArtifact, stored } = createArtifactRunner();
      const cases: [file_kind: string, reference: object, reason: string][] = [
        ["file", { path: "../made" }, "bad_path"],
        ["file", { path: "a/../../made" }, "bad_path"],
        ["nothing", { path: "/etc/passwd" }, "bad_path"],
        ["nothing", { path: "" }, "bad_path"],
        ["nothing", { path: "made\nremove x" }, "bad_path"],
        ["nothing", { path: 7 }, "bad_path"],
        ["nothing", {}, "missing"],
        ["file", { path: "made/more" }, "missing"],
        ["link", {}, "link"],
        ["inner_link", {}, "link"],
        ["folder_link", { path: "a/passwd" }, "link"],
        ["hard_link", {}, "link"],
        ["fifo", {}, "not_a_file"],
        ["folder", {}, "not_a_file"],
        ["setuid", {}, "setuid"],
        ["large", {}, "too_large"],
        ["file", { bytes: 8 }, "bad_size"],
        ["file", { sha256: "0".repeat(64) }, "bad_hash"],
      ];
      for (const [file_kind, reference, reason] of cases) {
        const { status, result, error, violations } = await runArtifact({ file_kind, reference });
        expect({
          file_kind,
          reference,
          status,
          result,
          code: error?.code,
          reason: error?.details?.reason,
        }).toEqual({
          file_kind,
          reference,
          status: "failed",
          result: null,
          code: "artifact_refused",
          reason,
        });
        expect(violations).toBe(1);
      }
      expect(stored.size).toBe(0);
    },
  );

  test.each([
    ["secret", "canary-in-a-file"],
    ["secret", "canary-in-ä-filé"],
    ["encoded_secret", "canary-in-a-file"],
  ])("refuses a file that contains a secret of the call: %s %s", async (file_kind, token) => {
    const { runArtifact, stored } = createArtifactRunner();
    const { error } = await runArtifact({ file_kind }, { context: { secrets: { token } } });
    expect(error).toMatchObject({ code: "artifact_refused", details: { reason: "secret" } });
    expect(stored.size).toBe(0);
  });

  test("refuses a reference from a call without a scratch folder", async () => {
    const { runArtifact } = createArtifactRunner();
    const { error } = await runArtifact({ file_kind: "nothing" }, { grant: {} });
    expect(error).toMatchObject({ code: "artifact_refused", details: { reason: "no_scratch" } });
  });

  verifies(
    "inv.artifacts",
    "passes large input as a file in the scratch folder and small input inline",
    async () => {
      const { test_runner, class: isolation } = createArtifactRunner();
      const small = await test_runner.run(
        vai("large-input", { class: isolation, grant, input: { text: "short" } }),
      );
      expect(small.result).toMatchObject({ structured_output: { by_file: false } });
      const input = { text: "é".repeat(300_000) };
      const large = await test_runner.run(vai("large-input", { class: isolation, grant, input }));
      const json = JSON.stringify(input);
      expect(large.result).toEqual({
        content: [],
        structured_output: {
          by_file: true,
          length: json.length,
          input: {
            transport: "artifact",
            path: "input.json",
            bytes: Buffer.byteLength(json),
            sha256: hash("sha256", json, "hex"),
          },
        },
      });
    },
  );

  verifies(
    "inv.artifacts",
    "passes a compactor's projection as projection.json and a harness's trigger as trigger.json",
    async () => {
      const { test_runner, class: isolation } = createArtifactRunner();
      const long = "é".repeat(300_000);
      const projection = { transport: "inline", blocks: [{ kind: "input", content: long }] };
      const trigger = { type: "message", text: long };
      const cases = [
        ["compactor.compact", "projection.json", projection, { source: { chain_id: "ch_1", projection } }],
        ["harness.run", "trigger.json", trigger, { mode: "start", trigger }],
      ] as const;
      for (const [op, path, value, body] of cases) {
        const outcome = await test_runner.run(
          vai("large-input", { class: isolation, grant, op, body: body as unknown as JsonObject }),
        );
        const json = JSON.stringify(value);
        expect(outcome.result).toMatchObject({
          structured_output: {
            by_file: true,
            length: json.length,
            input: {
              transport: "artifact",
              path,
              bytes: Buffer.byteLength(json),
              sha256: hash("sha256", json, "hex"),
            },
          },
        });
      }
    },
  );
});

test("stores the file of a process that exits right after its answer", async () => {
  for (const createRunner of [createConfinedTestRunner, createTestRunner]) {
    const store = createMemoryStore();
    const runner = createRunner({ artifacts: store });
    const isolation = createRunner === createTestRunner ? "worker" : "isolated";
    for (let i = 0; i < 5; i++) {
      const outcome = await runner.run(side("artifact", { class: isolation, grant }));
      expect(outcome).toMatchObject({
        status: "succeeded",
        violations: 0,
        result: { structured_output: { transport: "artifact", bytes: BYTES.length, sha256: SHA256 } },
      });
    }
  }
}, 120_000);

test("refuses a reference in a runner without an artifact store", async () => {
  const { error } = await createTestRunner().run(vai("artifact", { grant, input: {} }));
  expect(error).toMatchObject({ code: "artifact_refused", details: { reason: "no_store" } });
});
