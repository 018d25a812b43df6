/**
 * Commands that fix common failures of MCP servers. The servers' messages mention a variable or a path, but a server is
 * unaware of bindings, secrets and the sandbox.
 */

/** A variable for a credential, such as EXA_API_KEY. */
const CREDENTIAL = /\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD|PAT)\b/;
/** The error of a write to the folder of the package, as Node and the C library report it. */
const READ_ONLY = /\bEROFS\b|read-only file system/i;

/** The error for a server that listens on a port instead of reading its standard input. */
const SERVES_HTTP = /did not answer within(?!.*\berror\b).*\b(?:https?:\/\/|port:? \d|listening\b)/is;

/** Hints for the operator, derived from the output of the server. */
export function serverHints(text: string, binding_id: string): string[] {
  const set = `backplane binding set ${binding_id}`;
  const hints: string[] = [];
  const variable = CREDENTIAL.exec(text)?.[0];
  if (variable !== undefined) {
    const slot = variable.toLowerCase();
    hints.push(`To set ${variable}: backplane secret set ${slot}, then ${set} --secret ${slot}=${slot}`);
  }
  if (SERVES_HTTP.test(text))
    hints.push(
      `The server may expect HTTP requests. Many servers have an argument for stdio: ${set} -- --stdio`,
    );
  if (READ_ONLY.test(text)) {
    hints.push(
      "The folder of the server's package is read-only. Let the server write to /tmp, which is lost when the server stops, or to a mounted folder:",
      `  ${set} --mount /FOLDER:/data:rw, with --env or arguments after -- that specify the file`,
    );
  }
  return hints;
}
