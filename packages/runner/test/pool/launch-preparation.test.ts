import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { expect, onTestFinished, test } from "vitest";
import { logTo } from "@backplane/test-kit/log-to";
import { createDialects } from "../../src/dialects/create-dialects.ts";
import { Scratch } from "../../src/plugin-folders/scratch-folders.ts";
import { type PlanDeps, Preparation, type PreparationSteps } from "../../src/pool/launch-preparation.ts";
import { OwnFiles } from "../../src/programs/private-copies.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { FIXTURES, type OrderChange, orderOf, vai } from "../support/order.ts";

const dialect = createDialects({ outward: {} })("vai.rpc.v1")!;

/** Without a sandbox; what happens is noted in its order. */
function prepare(change: OrderChange, over: Partial<PreparationSteps & PlanDeps> = {}) {
  const root = mkdtempSync(join(tmpdir(), "backplane-preparation-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const done: string[] = [];
  const note =
    <T>(what: string, value: T) =>
    async () => {
      done.push(what);
      return value;
    };
  const steps: PreparationSteps = {
    pass: note("pass", undefined),
    folderFree: note("folder", undefined),
    takeSlot: note("slot", true),
    releaseSlot: () => void done.push("released"),
    refused: () => {},
    wayOut: () => {},
    ...over,
  };
  const deps = {
    files: {
      open: note("image", {
        folder: FIXTURES,
        check: note("checked", undefined),
        release: () => void done.push("image released"),
      }),
    },
    scratch: new Scratch(root, logTo()),
    confinement: createConfinement(null),
    programs: {},
    own: new OwnFiles(join(root, "own")),
    place: { surroundings: { home: "/home/operator", path: "" } },
    data_root: null,
    ...over,
  } as unknown as PlanDeps;
  const birth = { home: null, key: "k", env: null };
  const preparation = new Preparation(deps, orderOf(change), dialect, birth, steps);
  return { preparation, done, folders: () => readdirSync(root) };
}

test("each step comes after the one before, and what was taken is given back", async () => {
  const { preparation, done, folders } = prepare(vai("echo", { grant: { filesystem: "scratch" } }));
  const plan = await preparation.prepare();
  expect(done).toEqual(["pass", "folder", "slot", "image"]);
  expect(plan).toMatchObject({ folder: FIXTURES, home: expect.stringMatching(/proc_1$/) });
  expect([preparation.admitted, folders()]).toEqual([true, ["proc_1"]]);
  await preparation.check();
  await preparation.giveBack();
  expect(done.slice(4)).toEqual(["checked", "released", "image released"]);
  expect(folders()).toEqual([]);
});

test("who is held back counts for nothing and has nothing to give back", async () => {
  const held = new BackplaneError("crash_loop");
  const { preparation, done } = prepare(vai("echo"), { pass: () => Promise.reject(held) });
  await expect(preparation.prepare()).rejects.toBe(held);
  await preparation.giveBack();
  expect([preparation.admitted, done]).toEqual([false, []]);
});

test("without a slot nothing is read, and none is given back", async () => {
  const { preparation, done } = prepare(vai("echo"), { takeSlot: async () => false });
  await expect(preparation.prepare()).rejects.toMatchObject({ code: "crashed" });
  await preparation.giveBack();
  expect([preparation.admitted, done]).toEqual([true, ["pass", "folder"]]);
});

test("a slot that was taken is given back also when the bytes are not the installed ones", async () => {
  const files = { open: () => Promise.reject(new BackplaneError("package.corrupt")) };
  const { preparation, done } = prepare(vai("echo"), { files });
  await expect(preparation.prepare()).rejects.toMatchObject({ code: "package.corrupt" });
  await preparation.giveBack();
  expect(done).toEqual(["pass", "folder", "slot", "released"]);
});

test("a program of the operator's own has the operator's home, and no other class falls back to none", async () => {
  const host = prepare(vai("echo", { grant: { host: true } }));
  expect(await host.preparation.prepare()).toMatchObject({ home: "/home/operator" });
  const isolated = prepare(vai("echo", { class: "isolated" }));
  await expect(isolated.preparation.prepare()).rejects.toMatchObject({ code: "sandbox.unavailable" });
});
