import { createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("runs the work once per key and project, replays its response, and rejects a different or concurrent request", async () => {
  const fixture = await createTestKernel();
  const { idempotency } = fixture.kernel;
  let runs = 0;
  let finish = () => {};
  const work = async () => {
    runs++;
    await new Promise<void>((resolve) => (finish = resolve));
    return { status: 201, body: `{"run":${runs}}` };
  };
  const first = idempotency.once(user, "k", "digest", work);
  await expect.poll(() => runs).toBe(1);
  await expect(idempotency.once(user, "k", "digest", work)).rejects.toMatchObject({
    code: "idempotency.in_progress",
  });
  finish();
  expect(await first).toEqual({ status: 201, body: '{"run":1}', replayed: false });
  expect(await idempotency.once(user, "k", "digest", work)).toEqual({
    status: 201,
    body: '{"run":1}',
    replayed: true,
  });
  await expect(idempotency.once(user, "k", "other", work)).rejects.toMatchObject({
    code: "idempotency.conflict",
  });
  const other_project_user = { ...user, scope: { ...scope, project_id: "proj_other" } };
  const second = idempotency.once(other_project_user, "k", "other", work);
  await expect.poll(() => runs).toBe(2);
  finish();
  expect((await second).replayed).toBe(false);
});

test("releases the key after an exception or a 5xx or 429 response", async () => {
  const fixture = await createTestKernel();
  const { idempotency } = fixture.kernel;
  const broken = idempotency.once(user, "k", "d", () => Promise.reject(new Error("broken")));
  await expect(broken).rejects.toThrow("broken");
  for (const status of [500, 503, 429]) {
    const busy = await idempotency.once(user, "k", "d", async () => ({ status, body: "{}" }));
    expect(busy).toEqual({ status, body: "{}", replayed: false });
  }
  const done = await idempotency.once(user, "k", "d", async () => ({ status: 200, body: "{}" }));
  expect(done).toEqual({ status: 200, body: "{}", replayed: false });
});
