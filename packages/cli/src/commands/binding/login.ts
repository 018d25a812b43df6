/** `binding login` and `binding logout`: the gateway's own sign-in at a server that lives elsewhere. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { BackplaneError, type SignIn } from "@backplane/contract";
import type { Command } from "commander";
import { findBinding } from "../../bindings/find-binding.ts";
import { sayTools } from "../../bindings/report-tools.ts";
import type { Act } from "../../context/action.ts";
import type { Context } from "../../context/context.ts";
import { launchBrowser } from "../../terminal/open-browser.ts";
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
const LOOK_MS = 500;

export function addBindingLoginCommands(binding: Command, act: Act): void {
  binding
    .command("login <server>")
    .description("Sign in to a server at an address; SERVER is a binding id or the server's name.")
    .option("--client-id <id>", "a client that you registered at its authorization server")
    .option("--client-secret", "read that client's secret from stdin; on a terminal it is asked for")
    .option("--private-key <file>", "the client proves itself with this key (PKCS#8, PEM)")
    .option("--client-credentials", "sign in as that client itself; nobody is asked")
    .option("--scope <scopes>", "ask for these instead of what the server names")
    .option("--paste", "read the address that the browser ends at; for a machine without one")
    .option("--no-browser", "print the address and open nothing")
    .addHelpText("after", EXAMPLES)
    .action(act(login));
  binding
    .command("logout <server>")
    .description("Forget the sign-in, and tell the authorization server where it listens for that.")
    .action(act(logout));
}

async function login(context: Context, options: LoginOptions, name: string): Promise<undefined> {
  const { out, io } = context;
  assertOneStdin(context, options);
  const binding = await findBinding(context, name);
  const id = binding.binding_id;
  const { bindings } = context.client();
  const started = await bindings.login(id, await given(context, options, name));
  // With --paste the browser need not reach the gateway, so it goes straight to the authorization server.
  const address = options.paste === true ? started.authorization_url : started.start_url;
  if (address !== null) {
    out.note("Open this address in a browser and sign in there:");
    out.note(`  ${plainLine(address)}`);
    if (options.paste === true) {
      const redirect = await readRedirect(context, started.redirect_uri ?? "");
      await bindings.completeLogin(redirect);
    } else {
      if (options.browser !== false && io.stdout.isTTY === true) launchBrowser(address);
      out.note("Only the first browser that opens it can finish the sign-in.");
      out.note(`It comes back to ${started.redirect_uri}; where that cannot be reached, use --paste.`);
      await answered(context, id);
    }
  }
  // Asked now, so that what comes next speaks of this sign-in.
  await bindings.describe(id);
  const found = await bindings.signIn(id);
  out.data(found, () => `Signed in to ${binding.package_id}\n${describe(found)}`);
  await sayTools(context, binding);
  return undefined;
}

async function logout(context: Context, _options: object, name: string): Promise<undefined> {
  const binding = await findBinding(context, name);
  await confirm(
    context.io,
    context.flags,
    `Sign out of ${binding.package_id}? Its tools can then not be called.`,
  );
  await context.client().bindings.logout(binding.binding_id);
  context.out.data({ signed_out: binding.binding_id }, () => `Signed out of ${binding.package_id}`);
  return undefined;
}

async function given(context: Context, options: LoginOptions, name: string) {
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

async function readKey({ io }: Context, file: string): Promise<string> {
  try {
    return await readFile(resolve(io.cwd, file), "utf8");
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new BackplaneError("cli.usage", `--private-key names ${file}, which cannot be read (${reason}).`);
  }
}

async function readRedirect({ io, flags }: Context, redirect_uri: string): Promise<string> {
  const prompt = `Then paste the address that the browser ends at (${redirect_uri}?…): `;
  const text = canAsk(io, flags) ? await readVisible(io, prompt) : (await readStdin(io)).toString("utf8");
  if (text.trim() !== "") return text.trim();
  throw new BackplaneError("cli.usage", "No address came in.", {
    fix: "Paste the whole address, with everything after the question mark.",
  });
}

/** Until the browser came back, one way or the other. */
async function answered(context: Context, id: string): Promise<void> {
  for (;;) {
    const { login } = await context.client().bindings.signIn(id);
    if (login?.status === "done") return;
    const message = login?.message ?? undefined;
    if (login?.status === "failed") throw new BackplaneError("sign_in.failed", message);
    if (login === null || Date.parse(login.expires_at) < Date.now())
      throw new BackplaneError("sign_in.expired");
    await pause(LOOK_MS);
  }
}

function assertOneStdin({ io, flags }: Context, { paste, clientSecret }: LoginOptions): void {
  if (paste !== true || clientSecret !== true || canAsk(io, flags)) return;
  throw new BackplaneError("cli.usage", "--paste and --client-secret would both read stdin.", {
    fix: "Run it on a terminal, where each is asked for.",
  });
}

function describe({ issuer, client_id, scope, expires_at, renewable }: SignIn): string {
  return fields({
    by: issuer ?? undefined,
    client: client_id ?? undefined,
    scope: scope ?? undefined,
    until: expires_at === null ? undefined : `${expires_at}${renewable ? " (renewed by itself)" : ""}`,
  });
}
