/** The console session of a browser across restarts of the gateway. */
import { expect, onTestFinished, test } from "vitest";
import { startTestGateway } from "../support/gateway/gateway.ts";

test("keeps a browser signed in across an orderly restart and a kill, until it signs out", async () => {
  const first = await startTestGateway();
  onTestFinished(() => first.dispose());
  const { body } = await first.http<{ path: string }>("POST", "/v1/login-links");
  const sign_in = await fetch(first.url + body.path, { redirect: "manual" });
  expect(sign_in.status).toBe(303);
  const cookie = sign_in.headers.get("set-cookie")!.split(";", 1)[0]!;
  const statusAt = async (url: string) => (await fetch(`${url}/v1/sessions`, { headers: { cookie } })).status;
  expect(await statusAt(first.url)).toBe(200);
  await first.stop();
  const second = await startTestGateway({ home: first.home });
  expect(await statusAt(second.url)).toBe(200);
  await second.kill9();
  const third = await startTestGateway({ home: first.home });
  expect(await statusAt(third.url)).toBe(200);
  const logout = await fetch(`${third.url}/v1/logout`, {
    method: "POST",
    headers: { cookie, origin: third.url },
  });
  expect(logout.status).toBe(204);
  await third.stop();
  const fourth = await startTestGateway({ home: first.home });
  onTestFinished(async () => void (await fourth.stop()));
  expect(await statusAt(fourth.url)).toBe(401);
});
