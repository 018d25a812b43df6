/** `binding login` and `binding logout`: sign the gateway in to a remote server, and out of it. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { BackplaneError, type SignIn } from "@backplane/contract";
import type { Command } from "commander";
import { findBinding } from "../../bindings/find-binding.ts";
import { reportTools } from "../../bindings/report-tools.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { openBrowser } from "../../terminal/open-browser.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { canAsk, confirm, readVisible } from "../../terminal/prompts.ts";
import { readSecretValue, readStdin } from "../../terminal/read-input.ts";

interface LoginOptions {
  clientId?: string;
  clientSecret?: boolean;
  privateKey?: string;
  clientCredentials?: boolean;
  scope?: string;
  paste?: boolean;
  /** False with --no-browser. */
  browser?: boolean;
}

const EXAMPLES = `
Examples:
  backplane binding login example
  backplane binding login example --paste
  backplane binding login example --client-id abc123 --client-secret < secret.txt
  backplane binding login example --client-id abc123 --private-key key.pem --client-credentials
`;
const POLL_MS = 500;

export function addBindingLoginCommands(binding: Command, toAction: ToAction): void {
  binding
    .command("login <server>")
    .description("Sign in to a remote server; SERVER is a binding id or the name of the server.")
    .option("--client-id <id>", "id of a client that is registered at the authorization server")
    .option("--client-secret", "read the client secret from stdin or a hidden prompt")
    .option("--private-key <file>", "authenticate the client with this key (PKCS#8, PEM)")
    .option("--client-credentials", "sign in as the client itself, without a user")
    .option("--scope <scopes>", "request these scopes instead of the server's default")
    .option("--paste", "paste the final URL of the browser, for a machine without a browser")
    .option("--no-browser", "print the URL without opening a browser")
    .addHelpText("after", EXAMPLES)
    .action(toAction(login));
  binding
    .command("logout <server>")
    .description("Delete the sign-in and revoke its tokens if the server supports that.")
    .action(toAction(logout));
}

async function login(context: CommandContext, options: LoginOptions, name: string): Promise<undefined> {
  const { out, io } = context;
  assertOneStdin(context, options);
  const binding = await findBinding(context, name);
  const id = binding.binding_id;
  const { bindings } = context.client();
  const started = await bindings.login(id, await readLoginBody(context, options, name));
  // With --paste the browser may not be able to reach the gateway, so it opens the authorization server directly.
  const address = options.paste === true ? started.authorization_url : started.start_url;
  if (address !== null) {
    out.note("Open this URL in a browser and sign in:");
    out.note(`  ${plainLine(address)}`);
    if (options.paste === true) {
      const redirect = await readRedirect(context, started.redirect_uri ?? "");
      await bindings.completeLogin(redirect);
    } else {
      if (options.browser !== false && io.stdout.isTTY === true) openBrowser(address);
      out.note("Only the first browser that opens this URL can complete the sign-in.");
      out.note(`The browser returns to ${started.redirect_uri}. If it cannot reach that URL, use --paste.`);
      await waitForBrowser(context, id);
    }
  }
  // Refreshes the definitions, so that the tools below reflect this sign-in.
  await bindings.describe(id);
  const sign_in = await bindings.signIn(id);
  out.data(sign_in, () => `Signed in to ${binding.package_id}\n${formatSignIn(sign_in)}`);
  await reportTools(context, binding);
  return undefined;
}

async function logout(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const binding = await findBinding(context, name);
  await confirm(
    context.io,
    context.flags,
    `Sign out of ${binding.package_id}? Its tools can then no longer be called.`,
  );
  await context.client().bindings.logout(binding.binding_id);
  context.out.data({ signed_out: binding.binding_id }, () => `Signed out of ${binding.package_id}`);
  return undefined;
}

async function readLoginBody(context: CommandContext, options: LoginOptions, name: string) {
  const { clientId, clientSecret, privateKey, clientCredentials, scope } = options;
  const fix = `backplane binding login ${name} --client-id ID --client-secret < secret.txt`;
  return {
    ...(clientId === undefined ? {} : { client_id: clientId }),
    ...(clientSecret === true
      ? { client_secret: await readSecretValue(context, "the client's secret", fix) }
      : {}),
    ...(privateKey === undefined ? {} : { private_key: await readKey(context, privateKey) }),
    ...(clientCredentials === true ? { grant: "client_credentials" as const } : {}),
    ...(scope === undefined ? {} : { scope }),
  };
}

async function readKey({ io }: CommandContext, file: string): Promise<string> {
  try {
    return await readFile(resolve(io.cwd, file), "utf8");
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new BackplaneError("cli.usage", `Cannot read ${file} (--private-key): ${reason}.`);
  }
}

async function readRedirect({ io, flags }: CommandContext, redirect_uri: string): Promise<string> {
  const prompt = `Then paste the final URL of the browser (${redirect_uri}?…): `;
  const text = canAsk(io, flags) ? await readVisible(io, prompt) : (await readStdin(io)).toString("utf8");
  if (text.trim() !== "") return text.trim();
  throw new BackplaneError("cli.usage", "No URL was entered.", {
    fix: "Paste the whole URL, including everything after the question mark.",
  });
}

/** Resolves when the browser has completed the sign-in; throws if the login has failed or expired. */
async function waitForBrowser(context: CommandContext, id: string): Promise<void> {
  for (;;) {
    const { login } = await context.client().bindings.signIn(id);
    if (login?.status === "done") return;
    const message = login?.message ?? undefined;
    if (login?.status === "failed") throw new BackplaneError("sign_in.failed", message);
    if (login === null || Date.parse(login.expires_at) < Date.now())
      throw new BackplaneError("sign_in.expired");
    await pause(POLL_MS);
  }
}

function assertOneStdin({ io, flags }: CommandContext, { paste, clientSecret }: LoginOptions): void {
  if (paste !== true || clientSecret !== true || canAsk(io, flags)) return;
  throw new BackplaneError("cli.usage", "--paste and --client-secret would both read stdin.", {
    fix: "Run the command in a terminal; it prompts for both.",
  });
}

function formatSignIn({ issuer, client_id, scope, expires_at, renewable }: SignIn): string {
  return fields({
    issuer: issuer ?? undefined,
    client: client_id ?? undefined,
    scope: scope ?? undefined,
    expires: expires_at === null ? undefined : `${expires_at}${renewable ? " (renewed automatically)" : ""}`,
  });
}
