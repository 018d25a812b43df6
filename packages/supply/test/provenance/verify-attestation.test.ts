/** Verifies provenance attestations, valid and forged, against a private Sigstore that the test creates. */

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackplaneError } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTrustRoot, type LoadedTrustRoot } from "../../src/provenance/trust-root.ts";
import { verifyAttestation } from "../../src/provenance/verify-attestation.ts";
import {
  ACME_BUILD,
  provenanceStatement,
  type SignedBundle,
  SigstoreInstance,
} from "../support/sigstore-instance.ts";

const archive = Buffer.from("the archive");
const sha512 = createHash("sha512").update(archive).digest("hex");
const attested = { name: "@acme/server", version: "1.0.0", sha512 };
const statement = provenanceStatement({ ...attested, archive });
const sigstore = new SigstoreInstance();
let folder: string;
let trusted: LoadedTrustRoot;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "trust-root-"));
  const file = join(folder, "trusted_root.json");
  writeFileSync(file, JSON.stringify(sigstore.trustedRoot()));
  trusted = await createTrustRoot({ file, folder, now: Date.now }).load();
});
afterAll(() => rmSync(folder, { recursive: true }));

const verifyBundle = (bundle: unknown) => verifyAttestation(bundle, attested, trusted.material);

verifies(
  "pkg.sign",
  "verifies a provenance attestation and reads the build from its certificate",
  async () => {
    const logged_at = new Date("2026-03-01T10:00:00.000Z");
    const { repository, commit, ref, workflow } = ACME_BUILD;
    expect(await verifyBundle(sigstore.sign(statement, { logged_at }))).toEqual({
      build: {
        repository,
        commit,
        ref,
        workflow: `${repository}/${workflow}`,
        runner: "github-hosted",
        issuer: "https://token.actions.githubusercontent.com",
      },
      logged_at: logged_at.toISOString(),
    });
  },
);

test("verifies a statement of SLSA 0.2", async () => {
  const { repository, commit, ref } = ACME_BUILD;
  const configSource = { uri: `git+${repository}@${ref}`, digest: { sha1: commit } };
  const old = {
    ...statement,
    _type: "https://in-toto.io/Statement/v0.1",
    predicateType: "https://slsa.dev/provenance/v0.2",
  };
  const signed = sigstore.sign({ ...old, predicate: { invocation: { configSource } } });
  expect((await verifyBundle(signed)).build.commit).toBe(commit);
  const other = { ...configSource, digest: { sha1: "0".repeat(40) } };
  const contradicting = sigstore.sign({ ...old, predicate: { invocation: { configSource: other } } });
  await expect(verifyBundle(contradicting)).rejects.toMatchObject({ code: "provenance.mismatch" });
});

const changeBundle = (change: (bundle: SignedBundle) => void): SignedBundle => {
  const bundle = sigstore.sign(statement);
  change(bundle);
  return bundle;
};
const signedFor = (other: { name?: string; version?: string; archive?: Buffer }) =>
  sigstore.sign(provenanceStatement({ ...attested, archive, ...other }));
const entryOf = (bundle: SignedBundle) => bundle.verificationMaterial.tlogEntries[0]!;
const hour = 3_600_000;

const FORGERIES: [title: string, reason: string, createBundle: () => unknown][] = [
  [
    "for another package",
    "names the subject pkg:npm/%40acme/other@1.0.0",
    () => signedFor({ name: "@acme/other" }),
  ],
  [
    "for another version",
    "names the subject pkg:npm/%40acme/server@1.0.1",
    () => signedFor({ version: "1.0.1" }),
  ],
  ["for another archive", "names the digest", () => signedFor({ archive: Buffer.from("other") })],
  [
    "that claims a different repository than its certificate",
    "names the repository https://github.com/a/b",
    () =>
      sigstore.sign(
        provenanceStatement(
          { ...attested, archive },
          { ...ACME_BUILD, repository: "https://github.com/a/b" },
        ),
      ),
  ],
  [
    "that claims a different commit than its certificate",
    "names the commit 0000",
    () =>
      sigstore.sign(provenanceStatement({ ...attested, archive }, { ...ACME_BUILD, commit: "0".repeat(40) })),
  ],
  ["from another Sigstore", "certificate chain", () => new SigstoreInstance().sign(statement)],
  [
    "with a certificate that had expired",
    "certificate chain",
    () => sigstore.sign(statement, { issued_at: new Date(Date.now() - hour) }),
  ],
  [
    "with a certificate that was not valid yet",
    "certificate chain",
    () => sigstore.sign(statement, { issued_at: new Date(Date.now() + hour) }),
  ],
  [
    "with a certificate that the certificate log does not have",
    "expected 1 SCTs",
    () => sigstore.sign(statement, { unlogged_certificate: true }),
  ],
  [
    "of a person instead of a build",
    "does not name a repository",
    () => sigstore.sign(statement, { personal: true }),
  ],
  [
    "whose statement was changed",
    "payload hash mismatch",
    () =>
      changeBundle(({ dsseEnvelope }) => {
        dsseEnvelope.payload = Buffer.from(JSON.stringify({ ...statement, more: 1 })).toString("base64");
      }),
  ],
  [
    "with the signature of another attestation",
    "signature mismatch",
    () =>
      changeBundle((bundle) => {
        bundle.dsseEnvelope.signatures = sigstore.sign(statement).dsseEnvelope.signatures;
      }),
  ],
  [
    "without a log entry",
    "expected 1 timestamps",
    () => changeBundle((bundle) => void bundle.verificationMaterial.tlogEntries.splice(0)),
  ],
  [
    "with the log entry of another attestation",
    "signature mismatch",
    () =>
      changeBundle((bundle) => {
        bundle.verificationMaterial.tlogEntries = sigstore.sign(statement).verificationMaterial.tlogEntries;
      }),
  ],
  [
    "whose log entry has another time",
    "inclusion promise",
    () =>
      changeBundle((bundle) => {
        entryOf(bundle).integratedTime = String(Number(entryOf(bundle).integratedTime) - 1);
      }),
  ],
  [
    "whose log entry has another inclusion proof",
    "root hash",
    () =>
      changeBundle((bundle) => {
        entryOf(bundle).inclusionProof.hashes = [Buffer.alloc(32).toString("base64")];
      }),
  ],
  [
    "whose log entry has another body",
    "inclusion promise",
    () =>
      changeBundle((bundle) => {
        const body = Buffer.from(entryOf(bundle).canonicalizedBody, "base64").toString();
        entryOf(bundle).canonicalizedBody = Buffer.from(`${body} `).toString("base64");
      }),
  ],
  [
    "with thousands of log entries",
    "more than 8 log entries",
    () =>
      changeBundle((bundle) => {
        bundle.verificationMaterial.tlogEntries = Array.from({ length: 2_000 }, () => entryOf(bundle));
      }),
  ],
  [
    "with another kind of statement",
    "not a SLSA provenance",
    () => sigstore.sign({ ...statement, predicateType: "x" }),
  ],
  ["that is not a bundle", "invalid bundle", () => ({ hello: [1, 2] })],
  ["that is null", "it is not a bundle", () => null],
];

for (const [title, reason, createBundle] of FORGERIES)
  verifies("pkg.sign", `refuses an attestation ${title}`, async () => {
    const error = await verifyBundle(createBundle()).then(
      () => null,
      (thrown: BackplaneError) => thrown,
    );
    expect(error?.code).toBe(reason.startsWith("names") ? "provenance.mismatch" : "provenance.invalid");
    expect(error?.message).toContain("@acme/server@1.0.0");
    expect(error?.message).toContain(reason);
  });

describe("the trust root", () => {
  const createPublicRoot = (update: () => Promise<string>, now = Date.now) =>
    createTrustRoot({ file: null, folder: join(folder, "public"), now, update });
  const offline = async () => {
    throw new Error("no network");
  };

  test("uses the embedded root of the public Sigstore without a network", async () => {
    const { material, description } = await createPublicRoot(offline).load();
    expect(description.name).toContain("embedded");
    expect(material.certificateAuthorities.length).toBeGreaterThan(0);
    expect(material.tlogs.length).toBeGreaterThan(0);
    // The public root does not trust the private Sigstore.
    const failed = verifyAttestation(sigstore.sign(statement), attested, material);
    await expect(failed).rejects.toMatchObject({ code: "provenance.invalid" });
  });

  test("stores an update, looks for a newer one daily, and uses the stored one if the server is unreachable", async () => {
    let updates = 0;
    let now = 0;
    const text = JSON.stringify(sigstore.trustedRoot());
    const update = async () => {
      updates += 1;
      if (updates > 1) throw new Error("no network");
      return text;
    };
    const root = createPublicRoot(update, () => now);
    const first = await root.load();
    now += 23 * hour;
    expect(await root.load()).toBe(first);
    now += 2 * hour;
    const later = await root.load();
    expect(updates).toBe(2);
    expect(later.description.digest).toBe(first.description.digest);
    expect(later.description.name).toContain("not updated");
    // An update that is not a trust root changes nothing.
    const broken = await createPublicRoot(async () => "{}").load();
    expect(broken.description.digest).toBe(first.description.digest);
  });

  test("refuses a configured file that is not a trust root", async () => {
    for (const text of ["{}", "no JSON"]) {
      const file = join(folder, "broken.json");
      writeFileSync(file, text);
      const loaded = createTrustRoot({ file, folder, now: Date.now }).load();
      await expect(loaded).rejects.toMatchObject({ code: "config.invalid" });
    }
  });
});
