"""Small pictures of curves, written as text: the same rows give the same bytes."""

import math
from xml.sax.saxutils import escape

COLORS = ["#888888", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8a000", "#56b4e9", "#000000", "#7f3c8d", "#80ba5a", "#e73f74", "#4b4b8f"]
WIDTH, HEIGHT, LEFT, TOP, GAP = 210, 130, 44, 18, 34


def number(value):
    return f"{value:.3g}"


def panel(x, y, title, lines):
    points = [p for line in lines for p in line]
    xs = [p[0] for p in points]
    ys = [v for p in points for v in p[1:] if v > 0.0]
    low, high = (min(ys), max(ys)) if ys else (1.0, 10.0)
    low = max(low, high * 1e-9)
    if low == high:
        low, high = low / 2, high * 2
    first, last = min(xs, default=0), max(max(xs, default=1), min(xs, default=0) + 1)

    def at(px, value):
        value = min(max(value, low), high)
        return (f"{x + LEFT + WIDTH * (px - first) / (last - first):.1f},"
                f"{y + TOP + HEIGHT * (1 - math.log(value / low) / math.log(high / low)):.1f}")

    out = [f'<rect x="{x + LEFT}" y="{y + TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#ccc"/>',
           f'<text x="{x + LEFT + WIDTH / 2:.0f}" y="{y + 13}" text-anchor="middle">{escape(title)}</text>',
           f'<text x="{x + LEFT - 3}" y="{y + TOP + 8}" text-anchor="end">{number(high)}</text>',
           f'<text x="{x + LEFT - 3}" y="{y + TOP + HEIGHT}" text-anchor="end">{number(low)}</text>',
           f'<text x="{x + LEFT}" y="{y + TOP + HEIGHT + 12}">{number(first)}</text>',
           f'<text x="{x + LEFT + WIDTH}" y="{y + TOP + HEIGHT + 12}" text-anchor="end">{number(last)}</text>']
    for color, line in zip(COLORS, lines):
        if line and len(line[0]) > 2:
            band = [at(p[0], p[2]) for p in line] + [at(p[0], p[3]) for p in reversed(line)]
            out.append(f'<polygon points="{" ".join(band)}" fill="{color}" opacity=".12"/>')
        if line:
            out.append(f'<polyline points="{" ".join(at(p[0], p[1]) for p in line)}" fill="none" stroke="{color}"/>')
    return out


def panels(title, names, drawn, columns=4):
    """`drawn`: (title, a line for each name) of each panel; a line's points: (x, y) or (x, y, low, high). y is logarithmic."""
    columns = min(columns, len(drawn))
    wide, high = columns * (WIDTH + LEFT) + 10, -(-len(drawn) // columns) * (HEIGHT + GAP) + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
           'font-family="sans-serif" font-size="10">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="4" y="14" font-size="12">{escape(title)}</text>']
    for k, (name, lines) in enumerate(drawn):
        out += panel(k % columns * (WIDTH + LEFT), 18 + k // columns * (HEIGHT + GAP), name, lines)
    x = LEFT
    for color, name in zip(COLORS, names):
        out += [f'<rect x="{x}" y="{high - 16}" width="14" height="3" fill="{color}"/>',
                f'<text x="{x + 18}" y="{high - 11}">{escape(name)}</text>']
        x += 34 + 7 * len(name)
    return "\n".join([*out, "</svg>"]) + "\n"
