import { expect, test } from "vitest";
import { findLines } from "../../src/manifest/toml-lines.ts";

const TOML = `# a comment with [brackets] = "and quotes"
a = 1
"quoted.key" = 'x # no comment'
b.c.d = true          # dotted

text = """
[not.a.table]
"" two quotes ""\\"
"""
raw = '''
x = [1
'''
list = [ # comment ]
  "one", [
    2, 3 ],
  { k = "v", deep.er = [1,
     2] },
]

[t]
x = "\\"]"
[t.u."v w"]
y = 2024-01-01
[[items]]
id = 1
[items.inner]
z = 0
[[items.sub]]
q = 1
[[items.sub]]
q = 2
[[items]]
id = 2
[[items.sub]]
q = 3
`;

const lines = findLines(TOML);

test.each([
  [["a"], 2],
  [["quoted.key"], 3],
  [["b", "c", "d"], 4],
  [["text"], 6],
  [["raw"], 10],
  [["list"], 13],
  [["list", 0], 14],
  [["list", 1, 1], 15],
  [["list", 2, "k"], 16],
  [["list", 2, "deep", "er", 1], 17],
  [["t"], 20],
  [["t", "x"], 21],
  [["t", "u", "v w", "y"], 23],
  [["items", 0, "id"], 25],
  [["items", 0, "inner", "z"], 27],
  [["items", 0, "sub", 1, "q"], 31],
  [["items", 1], 32],
  [["items", 1, "id"], 33],
  [["items", 1, "sub", 0, "q"], 35],
  [["items", 1, "missing", "deep"], 32],
  [["nothing"], 1],
])("finds %j on line %i", (path, line) => {
  expect(lines.lineOf(path)).toBe(line);
});
