/**
 * The program comes from a mounted folder, whose files the gateway does not verify as it verifies those of a package.
 * The SHA-256 of the program is part of the record of every run, and a binding can require a particular SHA-256.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { fail } from "@backplane/sdk";

/** Resolves to the SHA-256 of the program. Fails if the binding specifies another one. */
export async function verifyProgram(program: string, expected: string | undefined): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(program, { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  const actual = hash.digest("hex");
  if (expected === undefined || expected === actual) return actual;
  fail(
    `${program} is not the program that the binding allows: its SHA-256 is ${actual}, not ${expected}. If you trust this program, set program_sha256 in the configuration of the binding to its SHA-256.`,
  );
}
