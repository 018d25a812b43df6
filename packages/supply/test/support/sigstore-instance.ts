/**
 * A private Sigstore in memory: a certificate authority with its certificate log, and a transparency log. It signs
 * statements as a build service does; options produce times and certificates that a verifier must refuse.
 */
import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";

const tlv = (tag: number, ...parts: Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
};
const seq = (...parts: Uint8Array[]) => tlv(0x30, ...parts);
const octets = (body: Uint8Array) => tlv(0x04, body);
const utf8 = (text: string) => tlv(0x0c, Buffer.from(text));
const bits = (body: Uint8Array) => tlv(0x03, Buffer.from([0]), body);
const integer = (value: number) => tlv(0x02, Buffer.from([value]));
const TRUE = Buffer.from([0x01, 0x01, 0xff]);

function oid(text: string): Buffer {
  const [first, second, ...rest] = text.split(".").map(Number) as [number, number, ...number[]];
  const base128 = (value: number): number[] => {
    const bytes = [value & 0x7f];
    for (let left = value >> 7; left > 0; left >>= 7) bytes.unshift((left & 0x7f) | 0x80);
    return bytes;
  };
  return tlv(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

const utcTime = (date: Date) =>
  tlv(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, "").slice(2, 14)}Z`));
const nameOf = (common: string) => seq(tlv(0x31, seq(oid("2.5.4.3"), utf8(common))));
const ECDSA_SHA256 = seq(oid("1.2.840.10045.4.3.2"));
const extension = (id: string, value: Uint8Array, critical = false) =>
  seq(oid(id), ...(critical ? [TRUE] : []), octets(value));

const newKey = () => generateKeyPairSync("ec", { namedCurve: "P-256" });
const spki = (key: KeyObject) => key.export({ type: "spki", format: "der" });
const sha256 = (...parts: Uint8Array[]) => createHash("sha256").update(Buffer.concat(parts)).digest();
const keyIdOf = (key: KeyObject) => createHash("sha1").update(spki(key)).digest();

interface Certificate {
  issuer: string;
  subject: Buffer;
  key: KeyObject;
  from: Date;
  until: Date;
  extensions: Buffer[];
}

const tbsOf = ({ issuer, subject, key, from, until, extensions }: Certificate): Buffer =>
  seq(
    tlv(0xa0, integer(2)),
    integer(7),
    ECDSA_SHA256,
    nameOf(issuer),
    seq(utcTime(from), utcTime(until)),
    subject,
    spki(key),
    tlv(0xa3, seq(...extensions)),
  );

const signCertificate = (tbs: Buffer, key: KeyObject): Buffer =>
  seq(tbs, ECDSA_SHA256, bits(sign("sha256", tbs, key)));

const FULCIO = "1.3.6.1.4.1.57264.1";
const MINUTE = 60_000;

export interface BuildIdentity {
  repository: string;
  commit: string;
  ref: string;
  workflow: string;
}

export const ACME_BUILD: BuildIdentity = {
  repository: "https://github.com/acme/server",
  commit: "5d41402abc4b2a76b9719d911017c592f8b1a3e7",
  ref: "refs/tags/v1.0.0",
  workflow: ".github/workflows/release.yml",
};

export interface SignOptions {
  identity?: BuildIdentity;
  /** When the log records the entry; the certificate is valid for ten minutes from `issued_at`. */
  logged_at?: Date;
  issued_at?: Date;
  /** Omits the certificate's entry in the certificate log. */
  unlogged_certificate?: boolean;
  /** A certificate for a person, without a repository. */
  personal?: boolean;
}

export type SignedBundle = ReturnType<SigstoreInstance["sign"]>;

export class SigstoreInstance {
  readonly #root = newKey();
  readonly #certificateLog = newKey();
  readonly #log = newKey();
  readonly #name = `authority-${Math.floor(performance.now())}`;

  /** The content of a trusted_root.json. */
  trustedRoot(): object {
    const start = "2020-01-01T00:00:00Z";
    const log = (baseUrl: string, key: KeyObject) => ({
      baseUrl,
      hashAlgorithm: "SHA2_256",
      publicKey: {
        rawBytes: spki(key).toString("base64"),
        keyDetails: "PKIX_ECDSA_P256_SHA_256",
        validFor: { start },
      },
      logId: { keyId: sha256(spki(key)).toString("base64") },
    });
    return {
      mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
      tlogs: [log("https://rekor.example.test", this.#log.publicKey)],
      certificateAuthorities: [
        {
          subject: { organization: "example", commonName: this.#name },
          uri: "https://fulcio.example.test",
          certChain: { certificates: [{ rawBytes: this.#rootCertificate().toString("base64") }] },
          validFor: { start },
        },
      ],
      ctlogs: [log("https://ctfe.example.test", this.#certificateLog.publicKey)],
      timestampAuthorities: [],
    };
  }

  /** Signs a statement as a build on a hosted runner. */
  sign(statement: object, options: SignOptions = {}) {
    const { logged_at = new Date(), issued_at = new Date(logged_at.getTime() - MINUTE) } = options;
    const { publicKey, privateKey } = newKey();
    const certificate = this.#issue(publicKey, issued_at, options);
    const payload = Buffer.from(JSON.stringify(statement));
    const payloadType = "application/vnd.in-toto+json";
    const encoded = Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `);
    const signature = sign("sha256", Buffer.concat([encoded, payload]), privateKey);
    return {
      mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
      verificationMaterial: {
        certificate: { rawBytes: certificate.toString("base64") },
        tlogEntries: [this.#record(payload, signature, certificate, logged_at)],
        timestampVerificationData: { rfc3161Timestamps: [] as object[] },
      },
      dsseEnvelope: {
        payload: payload.toString("base64"),
        payloadType,
        signatures: [{ sig: signature.toString("base64"), keyid: "" }],
      },
    };
  }

  #rootCertificate(): Buffer {
    const { publicKey, privateKey } = this.#root;
    const tbs = tbsOf({
      issuer: this.#name,
      subject: nameOf(this.#name),
      key: publicKey,
      from: new Date("2020-01-01T00:00:00Z"),
      until: new Date("2045-01-01T00:00:00Z"),
      extensions: [
        extension("2.5.29.19", seq(TRUE), true),
        extension("2.5.29.15", Buffer.from([0x03, 0x02, 0x01, 0x06]), true),
        extension("2.5.29.14", octets(keyIdOf(publicKey))),
      ],
    });
    return signCertificate(tbs, privateKey);
  }

  #issue(key: KeyObject, from: Date, options: SignOptions): Buffer {
    const { identity = ACME_BUILD, personal = false, unlogged_certificate = false } = options;
    const { repository, commit, ref, workflow } = identity;
    const workflow_uri = `${repository}/${workflow}@${ref}`;
    const facts: [number, string][] = [
      [8, "https://token.actions.githubusercontent.com"],
      [9, workflow_uri],
      [11, "github-hosted"],
      [12, repository],
      [13, commit],
      [14, ref],
      [18, workflow_uri],
    ];
    const certificate: Certificate = {
      issuer: this.#name,
      subject: seq(),
      key,
      from,
      until: new Date(from.getTime() + 10 * MINUTE),
      extensions: [
        extension("2.5.29.15", Buffer.from([0x03, 0x02, 0x07, 0x80]), true),
        extension("2.5.29.35", seq(tlv(0x80, keyIdOf(this.#root.publicKey)))),
        extension("2.5.29.17", seq(tlv(0x86, Buffer.from(workflow_uri))), true),
        ...facts
          .filter(([number]) => !personal || number === 8)
          .map(([number, text]) => extension(`${FULCIO}.${number}`, utf8(text))),
      ],
    };
    if (!unlogged_certificate)
      certificate.extensions.push(this.#certificateTimestamp(tbsOf(certificate), from));
    return signCertificate(tbsOf(certificate), this.#root.privateKey);
  }

  /** The promise of the certificate log for a certificate without this extension (RFC 6962, section 3.2). */
  #certificateTimestamp(tbs: Buffer, at: Date): Buffer {
    const time = Buffer.alloc(8);
    time.writeBigInt64BE(BigInt(at.getTime()));
    const length = Buffer.from([tbs.length >> 16, (tbs.length >> 8) & 0xff, tbs.length & 0xff]);
    const signed = Buffer.concat([
      Buffer.from([0, 0]),
      time,
      Buffer.from([0, 1]),
      sha256(spki(this.#root.publicKey)),
      length,
      tbs,
      Buffer.from([0, 0]),
    ]);
    const signature = sign("sha256", signed, this.#certificateLog.privateKey);
    const sct = Buffer.concat([
      Buffer.from([0]),
      sha256(spki(this.#certificateLog.publicKey)),
      time,
      Buffer.from([0, 0, 4, 3, signature.length >> 8, signature.length & 0xff]),
      signature,
    ]);
    const withLength = (body: Buffer) =>
      Buffer.concat([Buffer.from([body.length >> 8, body.length & 0xff]), body]);
    return extension("1.3.6.1.4.1.11129.2.4.2", octets(withLength(withLength(sct))));
  }

  #record(payload: Buffer, signature: Buffer, certificate: Buffer, at: Date) {
    const pem = `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64")}\n-----END CERTIFICATE-----\n`;
    const body = Buffer.from(
      JSON.stringify({
        apiVersion: "0.0.1",
        kind: "dsse",
        spec: {
          payloadHash: { algorithm: "sha256", value: sha256(payload).toString("hex") },
          signatures: [
            { signature: signature.toString("base64"), verifier: Buffer.from(pem).toString("base64") },
          ],
        },
      }),
    );
    const { publicKey, privateKey } = this.#log;
    const logId = sha256(spki(publicKey));
    const integratedTime = Math.floor(at.getTime() / 1_000);
    const promise = JSON.stringify({
      body: body.toString("base64"),
      integratedTime,
      logID: logId.toString("hex"),
      logIndex: 0,
    });
    // A log with two entries, of which this is the first.
    const [leaf, other] = [sha256(Buffer.from([0]), body), sha256(Buffer.from("other"))];
    const root = sha256(Buffer.from([1]), leaf, other);
    const note = `rekor.example.test - 1\n2\n${root.toString("base64")}\n`;
    const signed = Buffer.concat([logId.subarray(0, 4), sign("sha256", Buffer.from(note), privateKey)]);
    return {
      logIndex: "0",
      logId: { keyId: logId.toString("base64") },
      kindVersion: { kind: "dsse", version: "0.0.1" },
      integratedTime: String(integratedTime),
      inclusionPromise: {
        signedEntryTimestamp: sign("sha256", Buffer.from(promise), privateKey).toString("base64"),
      },
      inclusionProof: {
        logIndex: "0",
        rootHash: root.toString("base64"),
        treeSize: "2",
        hashes: [other.toString("base64")],
        checkpoint: { envelope: `${note}\n\u2014 rekor.example.test ${signed.toString("base64")}\n` },
      },
      canonicalizedBody: body.toString("base64"),
    };
  }
}

/** The statement that `npm publish --provenance` makes in a build. */
export function provenanceStatement(
  { name, version, archive }: { name: string; version: string; archive: Uint8Array },
  { repository, commit, ref, workflow }: BuildIdentity = ACME_BUILD,
) {
  const sha512 = createHash("sha512").update(archive).digest("hex");
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: `pkg:npm/${name.replace("@", "%40")}@${version}`, digest: { sha512 } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "https://slsa-framework.github.io/github-actions-buildtypes/workflow/v1",
        externalParameters: { workflow: { ref, repository, path: workflow } },
        resolvedDependencies: [{ uri: `git+${repository}@${ref}`, digest: { gitCommit: commit } }],
      },
      runDetails: { builder: { id: "https://github.com/actions/runner/github-hosted" } },
    },
  };
}
