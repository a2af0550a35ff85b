"""Statements of programs as tables: one row per kind, Python text with the slots of `expressions.py`.

A row may have several lines. The names `it`, `view`, `key`, `kept`, `scratch`, `each` and `row` are its own.
"""

from __future__ import annotations

from tests.programs.expressions import rows

# -- objects and local names -----------------------------------------------------------------------------------------------

OBJECTS = rows("""
t = $n
u = $a
u = born(np.tanh($array))
m = $p
k = $new
m = born(copy.copy($p))
$new.x
$o.const = copy.copy($q)
setattr($o, "x", $n)
setattr($o, "v", $a)
object.__setattr__($o, "x", $n)
object.__setattr__($o, "v", $a)
put($o, "x", $n)
put($o, "v", $a)
$o.level = $n
$o.x *= $r
it, kept = $o, $n
  del it.x
  assert not hasattr(it, "x")
  it.x = kept
it, kept = $o, $a
  del it.v
  assert not hasattr(it, "v")
  it.v = kept
it = $o
  it.x = it.const.p
  it.v = it.const.q
$o.x = 0.0
$o.v = np.zeros(3)
it = $o
  it.items = []
  it.items.append(it.y)
$o.n += 1
$o.n = $o.n + 2
it = $o
  it.x = np.tanh(it.x * it.n)
t = mt.stop_gradient($n)
$o.v = mt.stop_gradient($a)
$o.x = np.sin(mt.primal($number) * t)
t = np.tanh($o.step($r))
t = np.tanh($o.relax($r))
t = np.tanh($o.push($r))
t = np.tanh($o.mix($r))
$o.step($r)
$o.relax($r)
$o.push($r)
$o.mix($r)
object.__setattr__($q, "p", $n)
object.__setattr__($q, "q", $a)
vars_of($o)["x"] = $n
vars_of($o).update(y=$n)
$o.W = $m
$o.grid = $g
$o.z = $c
$o.W, it = $m, $o.W
  $o.W = it
it = $o
  it.grid = np.tanh(it.grid @ it.W + $r)
it = $o
  for _ in range(3):
      it.grid = np.tanh(it.grid @ it.W + it.v)
it = $o
  for _ in range(4):
      it.grid = np.sin(it.grid @ it.W)
  t = np.sin(np.sum(it.grid))
it = $o
  for _ in range(2):
      it.v = np.tanh(it.W @ it.v + $a)
it = $o
  it.grid = 1 / (1 + np.exp(-(it.grid @ $W)))
it = np.exp(-$n)
  t = 1 / (1 + it) + 0.25 * np.tanh(it)
it = np.exp(-$a) + 1
  u = np.tanh(1 / it - it * it)
it = (each.x * $r for each in $o.nodes[:2])
  t = np.tanh(next(it) + sum(it))
def walk(it):
      while True:
          it.x = np.tanh(it.x * 0.75 + 0.1)
          yield it.x
  it = walk($o)
  t = next(it) * $r
  t = np.tanh(t + next(it))
it = [np.tanh(each.x * $r) for each in $o.nodes[:2]]
  t = np.sin(sum(it))
it = np.stack([each.v for each in ($o, $o)])
  u = np.tanh(it[0] * it[1])
collect()
collect()
collect()
""")

# -- containers ------------------------------------------------------------------------------------------------------------
# Lists never run empty and do not grow without end.

CONTAINERS = rows("""
$items.append($n)
$items[0] = $n
$items[-1] = $n
$items.insert(0, $n)
$items.reverse()
$items.extend([$n])
$items[:1] = [$n, $r]
it = $items
  if len(it) > 1:
      t = it.pop()
$o.items = [np.tanh(each * $r) for each in $o.items]
$o.nodes.append($p)
$o.nodes[0] = $new
it = $o.nodes
  if len(it) > 1:
      m = it.pop(0)
for each in $o.nodes[:2]:
      each.x = np.tanh(each.x * $r)
$o.table[$k] = $n
$o.table["c"] = $n
$o.table.update(a=$n, b=$n)
it, key, kept = $o.table, $k, $n
  t = it.pop(key)
  it[key] = kept
it, key, kept = $o.table, $k, $n
  del it[key]
  it[key] = kept
$o.window.append($n)
$o.window.appendleft($n)
$o.window.extend([$n, $n])
$o.window[0] = $n
$o.window.rotate(1)
$o.window.reverse()
it = $o.window
  if len(it) > 1:
      t = it.popleft()
it = $o.window
  if len(it) > 1:
      del it[0]
it, kept = $o.window, $n
  it.clear()
  it.append(kept)
$o.window = deque(np.sin(each) for each in $o.window)
$o.point = $o.point._replace(p=$n)
$o.point = $o.point._replace(r=$p, q=$a)
t, u, m = $o.point
t, u, k = $o.pair
$o.pair = $o.pair[:2] + ($p,)
$o.tally[$k] += $n
$o.tally["new"] += $n
$o.tally["new"] = $o.tally["other"] * $n
$o.tally.update(a=$n)
t = $o.tally.pop("new", $r)
it = $o.tally
  for key in list(it):
      it[key] = np.tanh(it[key] * $r)
$o.nest["rows"][$i] = $a
it = $o.nest["rows"]
  it.append($a)
  del it[:-2]
$o.nest["rows"] = [np.sin(each) for each in $o.nest["rows"]]
$o.nest["rows"], $o.nest["rows"] = $o.nest["rows"], $o.nest["rows"]
$o.nest["deep"][0]["k"] = $n
$o.nest["deep"][0].setdefault("l", $n)
$o.nest["deep"] = ($o.nest["deep"][0], $n)
$o.nest = {**$o.nest, "deep": ({"k": $n}, $r)}
$o.items.sort()
$items += [$n]
it = $o.items
  if len(it) < 4:
      it *= 2
it = $o.items
  del it[1:]
it, kept = $o.items, $n
  it.clear()
  it.append(kept)
t = np.tanh(sum($o.items))
t = max($o.items)
t, *it = $o.items
for position, each in enumerate($o.items):
    t = np.tanh(each * $r + 0.25 * position)
it = $o.items
  it[:] = [np.sin(each) for each in reversed(it)]
$o.items = sorted($o.items)
it = $o.table
  it["a"], it["b"] = it["b"], it["a"]
t = $o.table.setdefault("c", $n)
t = $o.table.get("c", $r)
it = $o.table
  it |= {$k: $n}
it, kept = $o.table, {"a": $n, "b": $n}
  it.clear()
  it.update(kept)
t = np.tanh(sum($o.table.values()))
$o.table = {key: np.sin(each) for key, each in $o.table.items()}
""")

# -- arrays written in place -----------------------------------------------------------------------------------------------

IN_PLACE = rows("""
$A[$i] = $n
$A[:] = $a
$A[...] = $n
$A[:2] = $n
$A[::2] = ($a)[1:]
$A[1:] *= $r
$A[[0, 2]] = $n
$A[[2, 0, 2]] = $a
$A[[0, 0]] += $r
$A[[True, False, True]] = $n
$A[[False, True, True]] *= $r
it = $A
  it[it > 0.0371] = $n
it = $A
  it += $a
it = $A
  it *= it
it = $A
  it -= 0.5 * it[::-1]
it = $A
  it /= 2.5 + np.sin($a)
it = $A
  it[1:] = it[:-1]
it = $A
  view = it[::-1][:2]
  it[1] = $n
  t = np.sin(view[1] * $r)
  view *= $r
  t = np.tanh(t + it[2])
it = $A
  view = it[1:]
  view[0] = $n
  u = np.sin(it)
$o.v *= $r
$o.v += $a
$o.grid -= $g
$o.z *= $r
np.add($a, $r, out=$A)
it = $A
  np.multiply(it, it, out=it, where=[True, False, True])
it = $A
  np.sin($a, out=it, where=[False, True, True])
np.add.at($A, [0, 0, 2], $a)
np.add.at($A, [1, 1], $n)
np.subtract.at($A, [2, 0], $n)
np.copyto($A, $a)
np.copyto($A, $n, where=[False, True, True])
np.put($A, [2, 0, 2], $a)
np.put($A, [1], $n)
it = $A
  np.place(it, [True, False, True], it[::-1])
np.putmask($A, [True, False, True], ($a).astype($A.dtype))
$A.fill($n)
$A.sort()
np.fill_diagonal($W, $n)
np.fill_diagonal($W, $a)
$W[$i] = $a
$W[:, $i] = $a
$W[1, 1] = $n
$W[[0, 0, 1], [0, 0, 2]] = $a
$W[[0, 2], 1:] = $n
$W[:2, [0, 2]] *= $r
$W[[True, False, True]] = $a
$W[:, None, $i] = $n
$W.flat[4] = $n
$W.T[1:, 0] += $n
it = $W
  it += it.T
it = $W
  it[:] = it[::-1]
it = $W
  it *= 0.5
  it @= $m
it = $W
  it[[0, 2]] = it[[2, 0]]
it = $W
  np.add(it, $m, out=it, where=[True, False, True])
np.matmul($g, $m, out=$G)
$G[..., 0] = $n
$G[1] = $a
np.ravel($G)[1::2] = $a
$G.reshape(3, 2)[0] = $n
$G.reshape(3, 2).T[1][::-1][0] = $n
np.copyto($G, $a)
it = $G
  for row in (0, 1):
      it[row] = np.tanh(it[row - 1] * $r)
it = np.zeros_like($g)
  for row in (0, 1):
      it[row] = $a
  $o.grid = it
it = $o.grid @ $o.W
  it += $a
  it *= $r
  $o.grid = np.tanh(it)
u = born(np.tanh($a))
  u += $a
  u -= 0.5 * u
u = np.exp(-$a)
  u += 1.0
  u = 1 / u
u = 1.0 * $A
  u[$i] = $n
u = $A.copy()
  u[::2] += $n
u = np.zeros_like($a)
  u[$i] = $n
$Z[$i] = $n - 0.25j
$Z[:] = $c
$Z[[0, 0]] *= $r
part($Z, "real")[0] = $n
part($Z, "imag")[:] = $a
it = part($Z, "real")
  it *= $r
it = $Z
  view = part(it, "imag")
  it[1] = $n + 0.5j
  t = np.sin(view[1] + $r)
it = $Z
  it *= $c
scratch = np.ones(3)
  for step in range(2):
      scratch[:] = 0.25 * step + 0.5
      u = np.tanh($a * scratch)
scratch = np.ones(3)
  u = $a * scratch
  scratch *= 5.0
  t = np.tanh(np.sum(u * scratch))
scratch = np.ones(3)
  scratch[:] = mt.primal($a)
  u = np.tanh(u * scratch)
  scratch.fill(0.25)
$o.v = np.zeros(3)
  $o.v[$i] = $n
$o.v = scratch = np.ones(3)
  scratch[$i] = $f
""")
