/** Renewal of tokens: in the background or before a call, once for all calls and nodes. */
import { openPostgresStore } from "@backplane/store";
import { admin, seedTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import {
  callReadTool,
  countRenewals,
  createAuthorizationServer,
  createOutcome,
  createRefusal,
  createSignInKernel,
  createSignInRunner,
  SERVER,
  SERVER_URL,
  signIn,
} from "./sign-in-kernel.ts";

test("renews an expired token before it is used, but not a valid one", async () => {
  const { as, fixture, runner, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  expect(as.token_requests).toHaveLength(1);
  fixture.clock.wall_offset = 3_600_000;
  const first_token = runner.requests.at(-1)!.context.secrets.authorization;
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  expect(runner.requests.at(-1)!.context.secrets.authorization).not.toBe(first_token);
  expect(runner.requests).toHaveLength(2);
  expect(as.token_requests.map(({ grant_type }) => grant_type)).toEqual([
    "authorization_code",
    "refresh_token",
  ]);
});

test("uses a token that is about to expire without waiting, and renews it once in the background", async () => {
  const { as, fixture, runner, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  await callReadTool(fixture);
  const first_token = runner.requests.at(-1)!.context.secrets.authorization;
  fixture.clock.wall_offset = 3_600_000 - 20_000;
  const release = Promise.withResolvers<void>();
  runner.responses_after = release.promise;
  const done = await Promise.all(Array.from({ length: 10 }, () => callReadTool(fixture)));
  expect(done.map(({ status }) => status)).toEqual(Array(10).fill("succeeded"));
  expect(runner.requests.slice(1).map(({ context }) => context.secrets.authorization)).toEqual(
    Array(10).fill(first_token),
  );
  await until(() => countRenewals(runner) === 1);
  release.resolve();
  await until(async () => {
    await callReadTool(fixture);
    return runner.requests.at(-1)!.context.secrets.authorization !== first_token;
  });
  expect(countRenewals(runner)).toBe(1);
  expect(as.token_requests).toHaveLength(2);
});

test("retries a background renewal with growing pauses while the authorization server is unavailable", async () => {
  const { as, fixture, runner, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  fixture.clock.wall_offset = 3_600_000 - 20_000;
  runner.unavailable = true;
  const failed = () =>
    fixture.logged.filter((line) => JSON.stringify(line).includes("could not be renewed")).length;
  // The n-th request is sent after this pause and not before.
  for (const [n, pause] of [0, 2_000, 4_000, 8_000].entries()) {
    if (n > 0) {
      fixture.clock.monotonic_offset += pause - 1_000;
      expect((await callReadTool(fixture)).status).toBe("succeeded");
      // Long enough for a background request.
      await new Promise((done) => setTimeout(done, 100));
      expect(countRenewals(runner)).toBe(n);
      fixture.clock.monotonic_offset += 1_000;
    }
    expect((await callReadTool(fixture)).status).toBe("succeeded");
    await until(() => failed() === n + 1);
    expect(countRenewals(runner)).toBe(n + 1);
  }
  // The token has expired: the call waits for a renewal despite the pause and fails with its error, once.
  fixture.clock.wall_offset = 3_600_000;
  const request_count = runner.requests.length;
  expect(await callReadTool(fixture)).toMatchObject({ status: "failed", error: { code: "sign_in.failed" } });
  expect(countRenewals(runner)).toBe(5);
  expect(runner.requests).toHaveLength(request_count);
  runner.unavailable = false;
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  expect(countRenewals(runner)).toBe(6);
});

test("renews a refused token once for all calls and runs each call exactly once", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  as.revokeAll();
  as.token_delay_ms = 50;
  const done = await Promise.all(Array.from({ length: 10 }, () => callReadTool(fixture)));
  for (const { status, retry_count } of done)
    expect({ status, retry_count }).toEqual({ status: "succeeded", retry_count: 0 });
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(1);
  const accepted = runner.requests.filter(({ context }) =>
    as.findToken(context.secrets.authorization!, SERVER_URL),
  );
  expect(accepted).toHaveLength(10);
});

test("renews a token once across two nodes", { timeout: 60_000 }, async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const as = await createAuthorizationServer();
  const createNode = async () => {
    const store = await openPostgresStore({ url: postgres.url, schema: "sign_ins" });
    return await seedTestKernel(store, "", { runner: createSignInRunner(as) });
  };
  const [first, second] = [await createNode(), await createNode()];
  const { binding_id } = await first.bind(SERVER);
  await signIn(first, as, binding_id);
  as.revokeAll();
  as.token_delay_ms = 100;
  const calls = await Promise.all([
    callReadTool(first),
    callReadTool(second),
    callReadTool(first),
    callReadTool(second),
  ]);
  expect(calls.map(({ status, error }) => error?.message ?? status)).toEqual(Array(4).fill("succeeded"));
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(1);
});

test("keeps the sign-in while the authorization server is unavailable", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  as.revokeAll();
  runner.unavailable = true;
  expect(await callReadTool(fixture)).toMatchObject({ status: "failed", error: { code: "sign_in.failed" } });
  runner.unavailable = false;
  expect((await callReadTool(fixture)).status).toBe("succeeded");
});

test("requests a wider scope once for client_credentials, and does not repeat a refused request", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  const client = { client_id: "machine", client_secret: "machine-secret-0123456789", scope: "notes" };
  await fixture.kernel.signIns.begin(admin, binding_id, { ...client, grant: "client_credentials" });
  runner.script = ({ request }) => createOutcome(as, request.context.secrets.authorization, "write");
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  expect(as.token_requests.map(({ scope }) => scope)).toEqual(["notes", "notes write"]);
  runner.script = ({ request }) =>
    createRefusal(403, "insufficient_scope", "write", request.context.secrets.authorization);
  expect(await callReadTool(fixture)).toMatchObject({ error: { code: "plugin_failed" } });
  expect(as.token_requests).toHaveLength(2);
});

test("does not retry a refused refresh token and reports that a person must sign in", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  as.revokeAll({ refresh: true });
  for (let i = 0; i < 3; i++) {
    const { error } = await callReadTool(fixture);
    expect(error).toMatchObject({ code: "sign_in.needed" });
    expect(error!.message).toContain(`backplane binding login ${binding_id}`);
  }
  expect(as.token_requests.map(({ grant_type }) => grant_type)).toEqual([
    "authorization_code",
    "refresh_token",
  ]);
  const sign_in = await fixture.kernel.signIns.get(user, binding_id);
  expect(sign_in).toMatchObject({
    status: "needed",
    renewable: false,
    fix: `backplane binding login ${binding_id}`,
  });
  // The error of the authorization server repeats the refresh token.
  const output = JSON.stringify([sign_in, fixture.logged]);
  expect(as.issued_secrets.filter((secret) => output.includes(secret))).toEqual([]);
});

test("stores renewed tokens when the sign-in row changed meanwhile", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const requested = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  runner.script = async ({ request }) => {
    requested.resolve();
    await release.promise;
    return createRefusal(403, "insufficient_scope", "write", request.context.secrets.authorization);
  };
  const step_up_call = callReadTool(fixture);
  await requested.promise;
  runner.script = ({ request }) => createOutcome(as, request.context.secrets.authorization);
  // The first call needs a wider scope while the renewal for the second is still in flight.
  as.token_delay_ms = 300;
  fixture.clock.wall_offset = 3_600_000;
  const renewing_call = callReadTool(fixture);
  await until(() => countRenewals(runner) > 0);
  release.resolve();
  expect(await step_up_call).toMatchObject({ error: { code: "sign_in.needed" } });
  expect((await renewing_call).status).toBe("succeeded");
  // The refresh token was rotated, so losing the new one would end the sign-in.
  as.revokeAll();
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(2);
});
