import { readFileSync } from "node:fs";
import type { ExecutionClass } from "@backplane/contract";
import { readManifest } from "@backplane/supply";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { effectiveClass, lowersIsolation } from "../../src/grant/execution-class.ts";

const devkit = readFileSync(new URL("../../../supply/test/fixtures/devkit.toml", import.meta.url), "utf8");
const without_class = devkit.replaceAll(/^execution_class.*\n/gm, "");
const readManifestRequesting = (execution_class: ExecutionClass) =>
  readManifest(
    without_class.replaceAll(/^kind = .*\n/gm, (line) => `${line}execution_class = "${execution_class}"\n`),
  );
const classesOf = (manifest: ReturnType<typeof readManifest>) =>
  Object.fromEntries(manifest.exports.map((item) => [item.kind, effectiveClass({ policy: {} }, item)]));

const DEFAULTS = { harness: "isolated", tool: "isolated", hook: "worker", compactor: "worker" };

verifies("pkg.class-defaults", "runs an export without a class in the default class of its kind", () => {
  expect(without_class).not.toContain("execution_class");
  expect(classesOf(readManifest(without_class))).toEqual(DEFAULTS);
});

test("lets a package raise the isolation of its kind and never lower it", () => {
  expect(classesOf(readManifestRequesting("inline"))).toEqual(DEFAULTS);
  expect(classesOf(readManifestRequesting("worker"))).toEqual(DEFAULTS);
  expect(new Set(Object.values(classesOf(readManifestRequesting("isolated"))))).toEqual(
    new Set(["isolated"]),
  );
});

test("uses the binding's class and detects when it lowers isolation", () => {
  const [item] = readManifest(without_class).exports.filter(({ kind }) => kind === "tool");
  expect(effectiveClass({ policy: { class: "worker" } }, item!)).toBe("worker");
  expect(
    (["inline", "worker", "isolated"] as const).map((execution_class) =>
      lowersIsolation(execution_class, item!),
    ),
  ).toEqual([true, true, false]);
});
