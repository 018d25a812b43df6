/** Explains why the database could not be opened at start, which is usually a mistake in `store.url`. */
import { BackplaneError } from "@backplane/contract";

const UNREACHABLE =
  /^(?:ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ENOENT|EACCES)$/;

/** Null for an unknown error. The password never appears. */
export function explainConnection(error: unknown, url: string): BackplaneError | null {
  const { code, message = "" } = (error ?? {}) as { code?: unknown; message?: string };
  const { host, user, database } = readUrl(url);
  const server = `PostgreSQL at ${host}`;
  const createError = (problem: string, fix: string) =>
    new BackplaneError("store.unavailable", problem, {
      details: { host, user, database },
      fix,
      cause: error,
    });
  if (code === "28P01" || code === "28000" || /password must be a string|no password supplied/i.test(message))
    return createError(
      `${server} refused the user ${user}: the password is missing or wrong, or pg_hba.conf does not allow this connection.`,
      "Correct the user and the password in store.url of backplane.toml (postgres://USER:PASSWORD@HOST/DATABASE; percent-encode special characters).",
    );
  if (code === "3D000")
    return createError(
      `${server} has no database ${database}.`,
      `Create it (createdb -h ${host} -U ${user} ${database}), or correct the name at the end of store.url in backplane.toml.`,
    );
  if (code === "42501")
    return createError(
      `${server} does not allow the user ${user} to create tables in the database ${database}.`,
      `Grant it: GRANT CREATE ON DATABASE ${database} TO ${user}; GRANT CREATE ON SCHEMA public TO ${user};`,
    );
  const timed_out = /timeout expired|connection timeout|terminated due to connection timeout/i.test(message);
  if (timed_out || (typeof code === "string" && UNREACHABLE.test(code)))
    return createError(
      `${server} cannot be reached (${typeof code === "string" ? code : "timeout"}).`,
      "Check the host and port in store.url of backplane.toml, that the server is running, and that it accepts connections from this machine.",
    );
  return null;
}

function readUrl(text: string): { host: string; user: string; database: string } {
  try {
    const url = new URL(text);
    const user = decodeURIComponent(url.username) || url.searchParams.get("user") || "(none)";
    const socket = url.searchParams.get("host");
    const host = url.hostname === "" ? (socket ?? "localhost") : `${url.hostname}:${url.port || "5432"}`;
    return { host, user, database: decodeURIComponent(url.pathname.slice(1)) || user };
  } catch {
    return { host: "(store.url is not a URL)", user: "(none)", database: "(none)" };
  }
}
