import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { createDialects } from "../../src/dialects/create-dialects.ts";
import { ScratchFolders } from "../../src/plugin-folders/scratch-folders.ts";
import {
  LaunchPreparation,
  type PlanDeps,
  type PreparationSteps,
} from "../../src/pool/launch-preparation.ts";
import { PrivateCopies } from "../../src/programs/private-copies.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { FIXTURES, type RequestChange, requestOf, vai } from "../support/request.ts";

const dialect = createDialects({ outbound: {} })("vai.rpc.v1")!;

/** Creates the preparation of a launch without a sandbox, which records its steps in order. */
function createPreparation(change: RequestChange, overrides: Partial<PreparationSteps & PlanDeps> = {}) {
  const root = mkdtempSync(join(tmpdir(), "backplane-preparation-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const steps_done: string[] = [];
  const recordStep =
    <T>(label: string, value: T) =>
    async () => {
      steps_done.push(label);
      return value;
    };
  const steps: PreparationSteps = {
    waitUntilAllowed: recordStep("allowed", undefined),
    waitForFolder: recordStep("folder", undefined),
    takeSlot: recordStep("slot", true),
    releaseSlot: () => void steps_done.push("released"),
    refused: () => {},
    attachEgress: () => {},
    ...overrides,
  };
  const deps = {
    files: {
      open: recordStep("image", {
        folder: FIXTURES,
        check: recordStep("checked", undefined),
        release: () => void steps_done.push("image released"),
      }),
    },
    scratch: new ScratchFolders(root, createTestLogger()),
    confinement: createConfinement(null),
    programs: {},
    copies: new PrivateCopies(join(root, "own")),
    environment: { host_paths: { home: "/home/operator", path: "" } },
    data_root: null,
    ...overrides,
  } as unknown as PlanDeps;
  const start = { home: null, key: "k", env: null };
  const preparation = new LaunchPreparation(deps, requestOf(change), dialect, start, steps);
  return { preparation, steps_done, folders: () => readdirSync(root) };
}

test("performs the steps in order and releases what was acquired", async () => {
  const { preparation, steps_done, folders } = createPreparation(
    vai("echo", { grant: { filesystem: "scratch" } }),
  );
  const plan = await preparation.prepare();
  expect(steps_done).toEqual(["allowed", "folder", "slot", "image"]);
  expect(plan).toMatchObject({ folder: FIXTURES, home: expect.stringMatching(/proc_1$/) });
  expect([preparation.allowed, folders()]).toEqual([true, ["proc_1"]]);
  await preparation.check();
  await preparation.release();
  expect(steps_done.slice(4)).toEqual(["checked", "released", "image released"]);
  expect(folders()).toEqual([]);
});

test("acquires nothing for a plugin in a crash loop", async () => {
  const crash_loop = new BackplaneError("crash_loop");
  const { preparation, steps_done } = createPreparation(vai("echo"), {
    waitUntilAllowed: () => Promise.reject(crash_loop),
  });
  await expect(preparation.prepare()).rejects.toBe(crash_loop);
  await preparation.release();
  expect([preparation.allowed, steps_done]).toEqual([false, []]);
});

test("reads nothing and releases nothing without a slot", async () => {
  const { preparation, steps_done } = createPreparation(vai("echo"), { takeSlot: async () => false });
  await expect(preparation.prepare()).rejects.toMatchObject({ code: "crashed" });
  await preparation.release();
  expect([preparation.allowed, steps_done]).toEqual([true, ["allowed", "folder"]]);
});

test("releases the slot if the package files are not the installed ones", async () => {
  const files = { open: () => Promise.reject(new BackplaneError("package.corrupt")) };
  const { preparation, steps_done } = createPreparation(vai("echo"), { files });
  await expect(preparation.prepare()).rejects.toMatchObject({ code: "package.corrupt" });
  await preparation.release();
  expect(steps_done).toEqual(["allowed", "folder", "slot", "released"]);
});

test("gives the operator's home to a host tool, and refuses an isolated export without a sandbox", async () => {
  const host = createPreparation(vai("echo", { grant: { host: true, filesystem: "scratch" } }));
  const plan = await host.preparation.prepare();
  expect(plan).toMatchObject({ home: "/home/operator" });
  // The operator's files are not scratch files of the tool.
  expect(plan.scratch).toBeUndefined();
  await host.preparation.release();
  const isolated = createPreparation(vai("echo", { class: "isolated" }));
  await expect(isolated.preparation.prepare()).rejects.toMatchObject({ code: "sandbox.unavailable" });
});
