// A drawing of stages that is wider than its place begins at its first stage. Without it people scroll there.
"use strict";

for (const area of document.querySelectorAll(".drawing")) {
  const boxes = [...area.querySelectorAll(".box")].map((box) => box.getBoundingClientRect());
  const first = boxes.reduce((a, b) => (b.top < a.top || (b.top === a.top && b.left < a.left) ? b : a), boxes[0]);
  const own = area.getBoundingClientRect();
  if (first) area.scrollLeft += (first.left + first.right - own.left - own.right) / 2;
}
