/** The way out between calls: nothing is decided, no byte moves, and nothing is lost. */
import { expect, test } from "vitest";
import { connectLine, openRig, PUBLIC, socksConnect, Talk } from "../../support/egress.ts";
import { listen } from "../../support/loopback.ts";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Long enough for anything on loopback to arrive. */
const A_WHILE = 150;

async function echo() {
  const heard: string[] = [];
  const { port } = await listen((socket) => {
    socket.on("data", (data) => {
      heard.push(String(data));
      socket.write(data);
    });
  }, PUBLIC);
  return { port, heard };
}

test("a tunnel rests while no call is in flight, both ways, and goes on with the next", async () => {
  const { port, heard } = await echo();
  const { session, proxy } = await openRig({ domains: [`a.test:${port}`] });
  const talk = new Talk(proxy).say(connectLine(`a.test:${port}`));
  await talk.hear("200 Connection established");
  // A byte that is neither text nor TLS: it passes as it is.
  await talk.say("\0one ").hear("one");
  session.hold(true);
  talk.say("two ");
  await pause(A_WHILE);
  expect(heard.join("")).toBe("\0one ");
  session.hold(false);
  await talk.hear("two");
  expect(heard.join("")).toBe("\0one two ");
});

test("what the world says meanwhile waits too", async () => {
  const world = { speak: () => {} };
  const { port } = await listen((socket) => {
    world.speak = () => void socket.write("news");
    socket.write("hello");
  }, PUBLIC);
  const { session, proxy } = await openRig({ domains: [`a.test:${port}`] });
  const talk = new Talk(proxy).say(connectLine(`a.test:${port}`));
  await talk.hear("hello");
  session.hold(true);
  world.speak();
  await pause(A_WHILE);
  expect(talk.text).not.toContain("news");
  session.hold(false);
  await talk.hear("news");
});

test("whoever asks meanwhile is decided with the next call, and not before", async () => {
  const { port, heard } = await echo();
  const rig = await openRig({ domains: [`a.test:${port}`] });
  rig.session.hold(true);
  const asks = [
    new Talk(rig.proxy).say(connectLine(`a.test:${port}`)),
    new Talk(rig.proxy).say(socksConnect("a.test", port)),
    new Talk(rig.proxy).say(`GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`),
    new Talk(await rig.behind("named", port)).say("\0"),
  ];
  await pause(A_WHILE);
  expect({ heard, resolved: rig.resolved, refusals: rig.session.refusals() }).toEqual({
    heard: [],
    resolved: [],
    refusals: [],
  });
  rig.session.hold(false);
  await asks[0]!.hear("200 Connection established");
  await asks[1]!.hear("\u0005\u0000\u0005\u0000");
  await asks[2]!.hear("403 Forbidden");
  expect(rig.resolved).toContain("a.test");
});

test("closing ends those who wait", async () => {
  const { session, proxy } = await openRig({ domains: ["a.test"] });
  session.hold(true);
  const talk = new Talk(proxy).say(connectLine("a.test:443"));
  await pause(50);
  await session.close();
  expect(await talk.rest()).toBe("");
});

test("who asks on and on without an answer is ended, held or not; a few at once are served", async () => {
  const { port } = await listen((socket) => {
    socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
  }, PUBLIC);
  const { session, proxy } = await openRig({ domains: [`a.test:${port}`] });
  const request = `GET http://a.test:${port}/ HTTP/1.1\r\nHost: a.test:${port}\r\n\r\n`;
  session.hold(true);
  const patient = new Talk(proxy).say(request.repeat(8));
  const greedy = new Talk(proxy).say(request.repeat(1_000));
  expect(await greedy.rest()).toBe("");
  expect(session.refusals()).toMatchObject([{ reason: "limit.connections" }]);
  session.hold(false);
  await patient.hear("hi");
  await until(() => patient.text.split("200 OK").length === 9);
  // Answered ones do not count.
  patient.say(request.repeat(10));
  await until(() => patient.text.split("200 OK").length === 19);
});

async function until(done: () => boolean): Promise<void> {
  while (!done()) await pause(5);
}
