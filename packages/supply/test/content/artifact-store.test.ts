import { readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type ArtifactSubject,
  artifactContract,
  createUniqueBytes,
} from "../../../../test/support/store/artifact-contract.ts";
import { openArtifactStore } from "../../src/index.ts";

let dir: string;
let subject: ArtifactSubject;
const file = (sha256: string) => join(dir, "artifacts", sha256);
beforeAll(() => {
  dir = createMemoryFolder("backplane-artifacts-");
  subject = {
    files: openArtifactStore(dir),
    age(sha256, ms) {
      const modified_at = new Date(Date.now() - ms);
      utimesSync(file(sha256), modified_at, modified_at);
    },
    change: (sha256) => writeFileSync(file(sha256), readFileSync(file(sha256)).reverse()),
  };
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

artifactContract(() => subject);

test("stores a file with mode 0600 and leaves no temporary file", async () => {
  const { bytes, sha256 } = createUniqueBytes();
  await subject.files.store(sha256, bytes);
  expect(statSync(file(sha256)).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(dir, "artifacts", "tmp"))).toEqual([]);
});
