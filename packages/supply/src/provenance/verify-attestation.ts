/**
 * Verifies the provenance attestation of an npm package with Sigstore: the certificate and its log, the entry in the
 * transparency log, the signature, and then that the statement is about this package. Everything that is shown about
 * the build comes from the certificate, because the statement is written by the build itself.
 */
import { BackplaneError, isObject, type ProvenanceBuild } from "@backplane/contract";
import type { Signer, TrustMaterial } from "@sigstore/verify";

/** The package as recorded in the lock. */
export interface AttestedPackage {
  name: string;
  version: string;
  /** The hash of the archive, in hex. */
  sha512: string;
}

export interface VerifiedAttestation {
  build: ProvenanceBuild;
  logged_at: string | null;
}

const PREDICATE_TYPES = ["https://slsa.dev/provenance/v0.2", "https://slsa.dev/provenance/v1"];
const STATEMENT_TYPES = ["https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1"];
const PAYLOAD_TYPE = "application/vnd.in-toto+json";

/** The library compares log entries and timestamps pairwise, so a bundle must not have many. */
const MAX_ENTRIES = 8;
const MAX_TEXT = 2_048;

/** Extensions of Fulcio's certificates, below 1.3.6.1.4.1.57264.1. */
const FULCIO = "1.3.6.1.4.1.57264.1.";

/** Throws `provenance.invalid` or `provenance.mismatch`. */
export async function verifyAttestation(
  bundle: unknown,
  attested: AttestedPackage,
  trust: TrustMaterial,
): Promise<VerifiedAttestation> {
  const [{ bundleFromJSON, isBundleWithDsseEnvelope }, { toSignedEntity, Verifier }] = await Promise.all([
    import("@sigstore/bundle"),
    import("@sigstore/verify"),
  ]);
  let signer: Signer;
  let payload: Buffer;
  let logged_at: string | null;
  try {
    if (!isObject(bundle)) throw new Error("it is not a bundle");
    const parsed = bundleFromJSON(bundle);
    if (!isBundleWithDsseEnvelope(parsed)) throw new Error("it has no statement");
    const { payloadType, payload: bytes } = parsed.content.dsseEnvelope;
    if (payloadType !== PAYLOAD_TYPE) throw new Error("its payload is not an in-toto statement");
    const { tlogEntries, timestampVerificationData } = parsed.verificationMaterial;
    const entries = tlogEntries.length + (timestampVerificationData?.rfc3161Timestamps.length ?? 0);
    if (entries > MAX_ENTRIES) throw new Error(`it has more than ${MAX_ENTRIES} log entries and timestamps`);
    signer = new Verifier(trust).verify(toSignedEntity(parsed));
    payload = Buffer.from(bytes);
    // The log signs the time only as part of an inclusion promise.
    const [entry] = tlogEntries.filter(({ inclusionPromise }) => inclusionPromise !== undefined);
    logged_at = entry === undefined ? null : new Date(Number(entry.integratedTime) * 1_000).toISOString();
  } catch (error) {
    throw invalidProvenance(attested, reasonOf(error as Error), error);
  }
  const build = readBuild(attested, signer);
  requireStatement(attested, build, parseStatement(attested, payload));
  return { build, logged_at };
}

/** The library does not check values before it reads them, so a malformed bundle can cause any of these errors. */
function reasonOf({ name, message }: Error): string {
  return name === "TypeError" || name === "RangeError" || name === "SyntaxError"
    ? "it is malformed"
    : message;
}

export function invalidProvenance(
  { name, version }: Pick<AttestedPackage, "name" | "version">,
  reason: string,
  cause?: unknown,
): BackplaneError {
  return new BackplaneError(
    "provenance.invalid",
    `The provenance of npm:${name}@${version} cannot be verified: ${reason.slice(0, 300)}.`,
    { details: { name, version }, ...(cause === undefined ? {} : { cause }) },
  );
}

function readBuild(attested: AttestedPackage, { identity }: Signer): ProvenanceBuild {
  const extensions = new Map(
    (identity?.oids ?? []).map(({ oid, value }) => [oid?.id.join(".") ?? "", Buffer.from(value)]),
  );
  // Fulcio wrote the first extensions as plain bytes and the later ones as DER strings.
  const plain = (number: number) => extensions.get(`${FULCIO}${number}`)?.toString("utf8");
  const text = (number: number) => readDerText(extensions.get(`${FULCIO}${number}`));
  const issuer = text(8) ?? plain(1);
  const old_repository = plain(5);
  const repository =
    text(12) ?? (old_repository === undefined ? undefined : `https://github.com/${old_repository}`);
  const commit = text(13) ?? plain(3);
  const workflow = text(18) ?? identity?.subjectAlternativeName;
  if (issuer === undefined || repository === undefined || commit === undefined || workflow === undefined)
    throw invalidProvenance(attested, "its certificate does not name a repository, a commit and a workflow");
  const build = {
    repository,
    commit,
    ref: text(14) ?? plain(6) ?? null,
    workflow: workflow.replace(/@[^@]*$/, ""),
    runner: text(11) ?? null,
    issuer,
  };
  if (Object.values(build).some((value) => (value?.length ?? 0) > MAX_TEXT))
    throw invalidProvenance(attested, "its certificate names a value that is too long");
  return build;
}

/** The content of a UTF8String. */
function readDerText(der: Buffer | undefined): string | undefined {
  if (der === undefined || der[0] !== 0x0c) return undefined;
  const [first = 0, ...more] = der.subarray(1, 4);
  const [length, start] =
    first < 0x80 ? [first, 2] : first === 0x81 ? [more[0], 3] : [(more[0]! << 8) | more[1]!, 4];
  return length === der.length - start ? der.toString("utf8", start) : undefined;
}

interface Statement {
  _type?: unknown;
  predicateType?: unknown;
  subject?: unknown;
  predicate?: unknown;
}

function parseStatement(attested: AttestedPackage, payload: Buffer): Statement {
  let statement: Statement | null;
  try {
    statement = JSON.parse(payload.toString("utf8")) as Statement | null;
  } catch {
    statement = null;
  }
  if (
    !STATEMENT_TYPES.includes(statement?._type as string) ||
    !PREDICATE_TYPES.includes(statement?.predicateType as string)
  )
    throw invalidProvenance(attested, "its statement is not a SLSA provenance of version 0.2 or 1");
  return statement!;
}

/** The statement has to be about this archive, and must not contradict the certificate. */
function requireStatement(attested: AttestedPackage, build: ProvenanceBuild, statement: Statement): void {
  const { name, version, sha512 } = attested;
  const purl = `pkg:npm/${name}@${version}`;
  const subjects = Array.isArray(statement.subject) ? (statement.subject as unknown[]) : [];
  const named = subjects.map(
    (subject) => (subject ?? {}) as { name?: unknown; digest?: { sha512?: unknown } | null },
  );
  const [first] = named;
  if (!named.some((subject) => decodePurl(subject.name) === purl))
    throw mismatch(attested, "subject", purl, textOrNone(first?.name));
  const matching = named.filter((subject) => decodePurl(subject.name) === purl);
  if (!matching.some(({ digest }) => digest?.sha512 === sha512))
    throw mismatch(attested, "digest", sha512, textOrNone(matching[0]?.digest?.sha512));
  const source = claimedSource(statement.predicate);
  if (source.repository !== undefined && source.repository !== build.repository)
    throw mismatch(attested, "repository", build.repository, source.repository);
  if (source.commit !== undefined && source.commit !== build.commit)
    throw mismatch(attested, "commit", build.commit, source.commit);
}

function mismatch(
  { name, version }: AttestedPackage,
  field: string,
  actual: string,
  stated: string,
): BackplaneError {
  return new BackplaneError(
    "provenance.mismatch",
    `The provenance of npm:${name}@${version} names the ${field} ${stated.slice(0, 200)}, not ${actual}.`,
    { details: { name, version, field, stated: stated.slice(0, 200), actual } },
  );
}

function textOrNone(value: unknown): string {
  return typeof value === "string" ? value : "(none)";
}

/** npm encodes the @ of a scope. */
function decodePurl(purl: unknown): string | null {
  if (typeof purl !== "string") return null;
  try {
    return decodeURIComponent(purl);
  } catch {
    return null;
  }
}

/** The repository and the commit that the build itself states, in version 1 of the format or otherwise version 0.2. */
function claimedSource(predicate: unknown): { repository?: string; commit?: string } {
  const { buildDefinition, invocation } = (predicate ?? {}) as {
    buildDefinition?: {
      externalParameters?: { workflow?: { repository?: unknown } };
      resolvedDependencies?: { digest?: { gitCommit?: unknown } }[];
    };
    invocation?: { configSource?: { uri?: unknown; digest?: { sha1?: unknown } } };
  };
  const uri = invocation?.configSource?.uri;
  const repository =
    buildDefinition?.externalParameters?.workflow?.repository ??
    (typeof uri === "string" ? uri.replace(/^git\+/, "").split("@refs/", 1)[0] : undefined);
  const commit =
    buildDefinition?.resolvedDependencies?.[0]?.digest?.gitCommit ?? invocation?.configSource?.digest?.sha1;
  return {
    ...(typeof repository === "string" ? { repository } : {}),
    ...(typeof commit === "string" ? { commit } : {}),
  };
}
