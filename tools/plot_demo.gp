# Draws a study of two log-scaled strengths: gnuplot -e "input='trials.tsv'; output_stem='best_so_far'" plot_demo.gp
# input: number, l2, l2.edge, loss, best so far; tabs between them; the first line is the default setting.
# Writes output_stem.svg and output_stem.png.
set datafile separator "\t"
stats input using 4 every ::0::0 nooutput
default_loss = STATS_min
stats input using 4 nooutput
lowest = STATS_min
best_row = STATS_index_min
# The left panel shows the neighbourhood of the two settings that are compared.
span = default_loss - lowest
if (span < 0.01 * lowest) { span = 0.01 * lowest }

do for [kind in "svg png"] {
  if (kind eq "svg") {
    set terminal svg size 960,400 dynamic enhanced font "Helvetica,13" background "white"
  } else {
    set terminal pngcairo size 1440,600 enhanced font "Helvetica,13" fontscale 1.35 linewidth 1.5 pointscale 1.5
  }
  set output output_stem.".".kind
  set multiplot layout 1,2
  set border 3 lc rgb "#475569"
  set tics nomirror textcolor rgb "#334155"
  set grid ytics lc rgb "#e2e8f0" lt 1
  set key top right opaque textcolor rgb "#334155"
  set ylabel "validation loss (nats a row)" textcolor rgb "#334155"

  set title "Best so far (worse trials are above the frame)" textcolor rgb "#0f172a"
  set xlabel "trial" textcolor rgb "#334155"
  set format x "%g"
  set xrange [0:*]
  set yrange [lowest - 0.2 * span : default_loss + 1.6 * span]
  plot input using 1:4 with points pt 7 ps 0.6 lc rgb "#94a3b8" title "a trial", \
       default_loss with lines dt 2 lw 1.5 lc rgb "#d97706" title "default setting", \
       input using 1:5 with steps lw 2.5 lc rgb "#2563eb" title "best so far"

  set title "Where the trials went" textcolor rgb "#0f172a"
  set xlabel "l2" textcolor rgb "#334155"
  set ylabel "l2.edge" textcolor rgb "#334155"
  set logscale xy
  set xrange [0.05:2000]
  set yrange [0.05:20000]
  set format xy "10^{%L}"
  set mxtics 1
  set palette defined (0 "#1d4ed8", 1 "#e2e8f0")
  set cblabel "validation loss (nats a row)"
  set cbrange [lowest : default_loss + 1.6 * span]
  set format cb "%.3f"
  plot input using 2:3:4 with points pt 7 ps 0.9 lc palette z title "a trial", \
       input using 2:3 every ::0::0 with points pt 5 ps 1.1 lc rgb "#d97706" title "default setting", \
       input using 2:3 every ::best_row::best_row with points pt 3 ps 1.6 lw 2 lc rgb "#dc2626" title "best"
  unset logscale xy
  set format xy "%g"
  unset multiplot
  unset output
}
