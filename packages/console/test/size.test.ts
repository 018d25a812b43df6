import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const BUILT = new URL("../../api/dist/console/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, BUILT), "utf8");

test("the first load has at most 200 kB of compressed script", () => {
  const page = read("index.html");
  const scripts = [...page.matchAll(/(?:src|href)="\/static\/console\/([^"]+\.js)"/g)].map(
    (match) => match[1]!,
  );
  expect(scripts.length).toBeGreaterThan(1);
  const bytes = scripts.reduce((sum, name) => sum + gzipSync(read(name)).length, 0);
  expect(bytes).toBeLessThanOrEqual(200_000);
});

test("the built files load nothing from another origin and evaluate no text as code", () => {
  const files = readdirSync(BUILT).filter((name) => /\.(?:js|css|html)$/.test(name));
  expect(files.length).toBeGreaterThan(5);
  const violations = files.filter((name) =>
    /(?:src|href)="(?:https?:)?\/\/|url\((?:"|')?https?:|@import|\beval\(|new Function\(/.test(read(name)),
  );
  expect(violations).toEqual([]);
});
