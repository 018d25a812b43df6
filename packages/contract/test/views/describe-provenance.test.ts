import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Provenance, ProvenanceBuild } from "../../src/schema/index.ts";
import { comparePackages } from "../../src/views/compare-packages.ts";
import { describeProvenance } from "../../src/views/describe-provenance.ts";

const build: ProvenanceBuild = {
  repository: "https://github.com/acme/server",
  commit: "5d41402abc4b2a76b9719d911017c592f8b1a3e7",
  ref: "refs/tags/v1.0.0",
  workflow: "https://github.com/acme/server/.github/workflows/release.yml",
  runner: "github-hosted",
  issuer: "https://token.actions.githubusercontent.com",
};
const checked_at = "2026-05-01T00:00:00.000Z";
const verified: Provenance = {
  state: "verified",
  reason: null,
  build,
  logged_at: checked_at,
  checked_at,
  trust_root: { name: "the public Sigstore", digest: `sha256:${"0".repeat(64)}` },
};
const none: Provenance = { ...verified, state: "none", build: null, logged_at: null, trust_root: null };

verifies("pkg.sign", "describes where a package was built, or why that is not known", () => {
  expect(describeProvenance(verified)).toBe(
    "built from https://github.com/acme/server at 5d41402abc4b2a76b9719d911017c592f8b1a3e7 by .github/workflows/release.yml on github-hosted (https://token.actions.githubusercontent.com); verified 2026-05-01T00:00:00.000Z with the public Sigstore",
  );
  expect(describeProvenance(none)).toBe("the publisher provides no provenance");
  const unavailable: Provenance = { ...none, state: "unavailable", reason: "npm.lan answered 401" };
  expect(describeProvenance(unavailable)).toBe("published, but not verified: npm.lan answered 401");
});

test("describes how an upgrade changes the provenance", () => {
  const manifest = { runtime: { protocol: "vai.rpc.v1" }, exports: [] };
  const compare = (before: Provenance | undefined, after: Provenance | undefined) =>
    comparePackages(
      { manifest, schemas: {}, provenance: before } as never,
      { manifest, schemas: {}, provenance: after } as never,
    ).map(({ text, riskier }) => (riskier ? `Riskier: ${text}` : text));
  const verifiedWith = (change: Partial<ProvenanceBuild>): Provenance => ({
    ...verified,
    build: { ...build, ...change },
  });
  expect(compare(verified, verifiedWith({ commit: "0".repeat(40), ref: "refs/tags/v1.1.0" }))).toEqual([]);
  expect(compare(verified, verifiedWith({ repository: "https://github.com/mallory/server" }))).toEqual([
    "Riskier: Its repository changed: https://github.com/mallory/server instead of https://github.com/acme/server.",
  ]);
  expect(compare(verified, verifiedWith({ workflow: "https://github.com/acme/server/x.yml" }))).toEqual([
    expect.stringContaining("Riskier: Its workflow changed: https://github.com/acme/server/x.yml"),
  ]);
  expect(compare(verified, verifiedWith({ runner: null }))).toEqual([
    "Riskier: Its kind of machine changed: unknown instead of github-hosted.",
  ]);
  expect(compare(verified, none)).toEqual([
    "Riskier: It no longer has verified provenance: the publisher provides none. The version in use was built from https://github.com/acme/server.",
  ]);
  expect(compare(none, verified)).toEqual([expect.stringMatching(/^It now has provenance: built from/)]);
  expect(compare(undefined, none)).toEqual([]);
  expect(compare(verified, undefined)).toEqual([]);
});
